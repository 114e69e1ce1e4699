// What a person, or code acting for one, does to jobs it holds no lease on.

// Pending: cancelled now. Processing: the request is noted on the row, the worker sees it and aborts the handler; the
// outcome stays the worker's to record. It is told at once if it listens. Locked by somebody: busy, ask again.
export const CANCEL = `-- job.cancel
with looked as materialized (
  select i.id as asked, j.*
  from unnest((select $1::bigint[])) as i (id)
  left join lateral (
    select job.* from leasehold.job where job.id = i.id limit 1 for update skip locked
  ) j on true
), requested as (
  update leasehold.job set cancel_requested_at = leasehold.clock()
  where id = any (array(select id from looked where claim_id is not null)) and cancel_requested_at is null
), ended as (
  delete from leasehold.job where id = any (array(select id from looked where id is not null and claim_id is null))
), cancelled as (
  insert into leasehold.archive (id, finished_at, available_at, created_at, lease_generation, status, attempts,
    max_attempts, priority, partition_bucket, payload_version, queue, kind, payload, partition_key, idempotency_key,
    metadata, tags)
  select id, leasehold.clock(), available_at, created_at, lease_generation, 'cancelled', attempts, max_attempts,
    priority, partition_bucket, payload_version, queue, kind, payload, partition_key, idempotency_key, metadata, tags
  from looked where id is not null and claim_id is null
)
select asked, case
  when claim_id is not null then case when leasehold.tell('cancel', asked::text) then 'requested' end
  when id is not null then 'cancelled'
  else coalesce((select 'busy' from leasehold.job j where j.id = asked), 'not_found')
end
from looked`

// A dead letter becomes a pending job again: same id, same generation (so an old worker stays refused), fresh attempts.
// One that died with its worker stays a suspect: it is claimed alone.
// The delete decides between two operators who click at once.
export const REDRIVE = `-- job.redrive
with picked as materialized (
  select d.id
  from unnest((select $1::bigint[])) as i (id)
  cross join lateral (
    select id from leasehold.dead_letter where dead_letter.id = i.id limit 1 for update skip locked
  ) d
), revived as (
  delete from leasehold.dead_letter where id = any (array(select id from picked)) returning *
)
insert into leasehold.job (id, available_at, created_at, lease_generation, max_attempts, crashes, priority,
  partition_bucket, payload_version, blocked, queue, kind, payload, partition_key, idempotency_key, metadata, tags)
select id, leasehold.clock(), created_at, lease_generation, max_attempts,
  case reason when 'lease_expired' then greatest(crashes, 2) else 0 end, priority, partition_bucket, payload_version,
  blocked, queue, kind, payload, partition_key, idempotency_key, metadata, tags
from revived
returning id, (select leasehold.wake(array(select distinct queue from revived)))`

// The oldest dead letters of a queue.   $1 queue  $2 kind or null  $3 reason or null  $4 at most
export const FIND_DEAD_LETTERS = `-- dead_letter.find
select id from leasehold.dead_letter
where queue = $1 and ($2::text is null or kind = $2) and ($3::text is null or reason = $3)
order by died_at, id
limit $4`
