// A spot is a (queue, priority) and the row to start from: the mark, or the beginning. The lateral is lazy: rows are
// locked one by one until the limit is reached, in the order of the spots, and no later spot is even looked at.
// Before a row is returned its latest version is locked and tested again, so a row that was claimed, finished or moved
// since this statement's snapshot is passed over: no two claims return one row.
//   $1 claim id  $2 worker id  $3 worker label  $4 lease in ms  $5 limit  $6 kinds  $7–$10 spots
export const CLAIM = `-- job.claim
with picked as materialized (
  select j.id
  from unnest((select $7::text[]), (select $8::smallint[]), (select $9::timestamptz[]), (select $10::bigint[]))
    as spot (queue, priority, from_at, from_id)
  cross join lateral (
    select job.id
    from leasehold.job
    where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes = 0
      and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= leasehold.clock()
      and job.claim_id is null and job.kind = any ($6::text[])
      and (job.expires_at is null or job.expires_at > leasehold.clock())
    order by job.available_at, job.id
    limit $5
    for update skip locked
  ) j
  limit $5
), ledger as (
  insert into leasehold.claim (id, worker_id, worker_label, claimed_at, expires_at, job_ids)
  select $1, $2, $3, leasehold.clock(), leasehold.clock() + $4 * interval '1 ms', array_agg(id)
  from picked having count(*) > 0
), claimed as (
  update leasehold.job
  set claim_id = $1, claimed_at = leasehold.clock(), lease_generation = lease_generation + 1, attempts = attempts + 1
  where id = any (array(select id from picked))
  returning id, lease_generation, attempts, max_attempts, queue, kind, payload, priority, available_at, created_at,
    payload_version, partition_key, metadata, tags
)
select * from claimed order by priority, available_at, id`

// Jobs whose lease has run out before, apart from the others: $7 and $8 bound the crashes, $9 are the queues.
export const CLAIM_SUSPECTS = `-- job.claim_suspects
with picked as materialized (
  select j.id
  from unnest((select $9::text[])) as spot (queue)
  cross join generate_series(0, 9) as level (priority)
  cross join lateral (
    select job.id
    from leasehold.job
    where job.queue = spot.queue and job.priority = level.priority and not job.blocked and job.crashes > 0
      and job.crashes between $7 and $8 and job.available_at <= leasehold.clock()
      and job.claim_id is null and job.kind = any ($6::text[])
      and (job.expires_at is null or job.expires_at > leasehold.clock())
    order by job.available_at, job.id
    limit $5
    for update skip locked
  ) j
  limit $5
), ledger as (
  insert into leasehold.claim (id, worker_id, worker_label, claimed_at, expires_at, job_ids)
  select $1, $2, $3, leasehold.clock(), leasehold.clock() + $4 * interval '1 ms', array_agg(id)
  from picked having count(*) > 0
), claimed as (
  update leasehold.job
  set claim_id = $1, claimed_at = leasehold.clock(), lease_generation = lease_generation + 1, attempts = attempts + 1
  where id = any (array(select id from picked))
  returning id, lease_generation, attempts, max_attempts, queue, kind, payload, priority, available_at, created_at,
    payload_version, partition_key, metadata, tags
)
select * from claimed order by priority, available_at, id`

// The fence of a renewal is the ledger row itself: the sweep deletes it, or marks it swept, before anyone can claim again.
export const RENEW = `-- claim.renew
update leasehold.claim set expires_at = leasehold.clock() + $3 * interval '1 ms'
where id = any ($1::bigint[]) and worker_id = $2 and not swept
returning id, expires_at`
