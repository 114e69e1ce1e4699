// The claim itself is a function in the database, leasehold.claim(): see migrations/0001_jobs.sql for its argument and
// decisions/0006 for why it lives there.
//   $1 claim id  $2 worker id  $3 worker label  $4 lease in ms  $5 limit  $6 kinds  $7–$10 spots  $11, $12 crashes
export const CLAIM = `-- job.claim
select * from leasehold.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// The fence of a renewal is the ledger row itself: the sweep deletes it, or marks it swept, before anyone can claim again.
export const RENEW = `-- claim.renew
update leasehold.claim set expires_at = leasehold.clock() + $3 * interval '1 ms'
where id = any ((select $1::bigint[])::bigint[]) and worker_id = $2 and not swept
returning id, expires_at`

// Claims whose every job has its outcome. The sweep would remove them when their leases end; this keeps the ledger short,
// and tells it who was surely alone.
export const CLOSE = `-- claim.close
delete from leasehold.claim where id = any ((select $1::bigint[])::bigint[]) and worker_id = $2`

// Whether suspects wait: a look, so that a worker clears its desk only when it has to.   $1 queues  $2 kinds
export const SUSPECTS_WAIT = `-- job.suspects_wait
select true
from unnest((select $1::text[])) as i (queue)
cross join lateral (
  select from leasehold.job
  where job.queue = i.queue and not job.blocked and job.crashes > 0 and job.available_at <= leasehold.clock()
    and job.claim_id is null and job.kind = any ((select $2::text[])::text[])
    and (job.expires_at is null or job.expires_at > leasehold.clock())
  limit 1
) j
limit 1`

// A whole claim handed back by its worker, without knowing what is in it: for a claim whose reply was lost. The jobs never
// started, so nobody is to blame: attempt and place in the line are kept. One that was to be cancelled is.
//   $1 claim id  $2 worker id
export const RELEASE_CLAIM = `-- claim.release
with mine as materialized (
  select id, worker_id, job_ids from leasehold.claim where id = $1 and worker_id = $2 for update
), looked as materialized (
  select mine.id as claim, mine.worker_id, held.job_id, j.*
  from mine
  cross join lateral (select distinct unnest(mine.job_ids)) as held (job_id)
  left join lateral (
    select job.* from leasehold.job
    where job.id = held.job_id and job.claim_id = mine.id
    limit 1
    for update skip locked
  ) j on true
), returned as (
  update leasehold.job
  set claim_id = null, claimed_at = null, attempts = attempts - 1
  where id = any (array(select id from looked where id is not null and cancel_requested_at is null))
), ended as (
  delete from leasehold.job where id = any (array(select id from looked where cancel_requested_at is not null))
), cancelled as (
  insert into leasehold.archive (id, finished_at, available_at, created_at, lease_generation, claimed_at, claimed_by,
    status, attempts, max_attempts, priority, partition_bucket, payload_version, queue, kind, payload, partition_key,
    idempotency_key, metadata, tags)
  select id, leasehold.clock(), available_at, created_at, lease_generation, claimed_at, worker_id, 'cancelled', attempts,
    max_attempts, priority, partition_bucket, payload_version, queue, kind, payload, partition_key, idempotency_key,
    metadata, tags
  from looked where cancel_requested_at is not null
), closed as (
  delete from leasehold.claim
  where id = any (array(select id from mine)) and not exists (
    select from looked
    where id is null and (select true from leasehold.job j where j.id = looked.job_id and j.claim_id = looked.claim)
  )
)
select id, lease_generation from looked where id is not null`
