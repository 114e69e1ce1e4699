// Lists and lookups of jobs for people. Read-only, and not on any hot path.

// Newest first, a walk down the primary key of one table.
//   $1 ids below, or null  $2 queue or null  $3 kind or null  $4 at most  $5 status or null
export const LIST_UNFINISHED = `-- inspect.list_unfinished
select id from leasehold.job
where ($1::bigint is null or id < $1) and ($2::text is null or queue = $2) and ($3::text is null or kind = $3)
  and ($5::text is null or (claim_id is null) = ($5 = 'pending'))
order by id desc
limit $4`

export const LIST_DEAD_LETTERS = `-- inspect.list_dead_letters
select id from leasehold.dead_letter
where ($1::bigint is null or id < $1) and ($2::text is null or queue = $2) and ($3::text is null or kind = $3)
order by id desc
limit $4`

export const LIST_FINISHED = `-- inspect.list_finished
select id from leasehold.archive
where ($1::bigint is null or id < $1) and ($2::text is null or queue = $2) and ($3::text is null or kind = $3)
  and ($5::text is null or status = $5::leasehold.job_status)
order by id desc
limit $4`

// Jobs from all tables, in the order of the ids. JSON as text and times as float8: in the caller's transaction a driver may parse the
// former, and make objects of numerics.   $1 ids
export const GET = `-- inspect.get
select j.*
from unnest((select $1::bigint[])) with ordinality as i (id, position)
cross join lateral (
  select id, queue, kind, status, label, payload::text, result::text, last_error::text, reason, attempts, max_attempts,
    priority, lease_generation, claimed_by_label, progress::text, partition_key, idempotency_key, metadata::text,
    (extract(epoch from available_at) * 1000)::float8 as available_ms,
    (extract(epoch from created_at) * 1000)::float8 as created_ms,
    (extract(epoch from completed_at) * 1000)::float8 as completed_ms,
    (extract(epoch from lease_expires_at) * 1000)::float8 as lease_ends_ms,
    cancel_requested_at is not null as cancel_requested
  from leasehold.jobs where jobs.id = i.id limit 1
) j
order by i.position`
