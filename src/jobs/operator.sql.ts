// What an operator, or code acting for one, does to jobs without holding a lease. Each leaves a row in operator_action.

// Pending: cancelled now, unless it is the run of a workflow that has begun: then it is woken, to compensate. Processing: the request is noted on the row, the worker sees it and aborts the handler; the
// worker then records the outcome. It is notified at once if it listens. Locked by another transaction: busy, ask again.
//   $1 ids  $2 by  $3 reason
export const CANCEL = `-- job.cancel
with looked as materialized (
  select i.id as asked, j.*
  from unnest((select $1::bigint[])) as i (id)
  left join lateral (
    select job.id, job.claim_id, job.queue, job.claim_id is not null or leasehold.has_begun(job.id) as begun
    from leasehold.job where job.id = i.id limit 1 for update skip locked
  ) j on true
), requested as (
  update leasehold.job set cancel_requested_at = leasehold.clock(), cancel_reason = $3::text
  where id = any (array(select id from looked where claim_id is not null)) and cancel_requested_at is null
  returning id
), woken_runs as (
  update leasehold.job
  set cancel_requested_at = leasehold.clock(), cancel_reason = $3::text, available_at = leasehold.clock(), waiting_for = null
  where id = any (array(select id from looked where begun and claim_id is null)) and cancel_requested_at is null
  returning id
), answered as materialized (
  select asked, id, claim_id, queue, case
    when begun then 'requested'
    when id is not null then 'cancelled'
    else coalesce((select 'busy' from leasehold.job j where j.id = asked), 'not_found')
  end as outcome
  from looked
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, job_id, detail)
  select leasehold.clock(), 'cancel', $2::text, outcome, asked, $3::text from answered where id is not null
)
select asked as id, outcome, case outcome when 'requested' then leasehold.tell('cancel', asked::text) end as told, (
    select leasehold.wake(array_agg(distinct queue)) from answered where outcome = 'requested' and claim_id is null having count(*) > 0
  ) as woken, (
    select leasehold.finish('cancelled', array_agg(id), null, array_agg($3::text)) from answered
    where outcome = 'cancelled' and (select count(*) from requested) >= 0
  ) as finished
from answered`

// A dead letter becomes a pending job again: same id, same generation, fresh attempts. A job that died with its worker
// stays a suspect: it is claimed alone. A run that was to be cancelled still is: it undoes what it did. The delete decides between two operators who redrive at once. Those of ordered queues
// are put back into their keys by leasehold.redrive_in_order(), which may bring others along.
//   $1 ids  $2 by
export const REDRIVE = `-- job.redrive
with picked as materialized (
  select d.id, d.key_seq
  from unnest((select $1::bigint[])) as i (id)
  cross join lateral (
    select id, key_seq from leasehold.dead_letter where dead_letter.id = i.id limit 1 for update skip locked
  ) d
), revived as (
  delete from leasehold.dead_letter where id = any (array(select id from picked where key_seq is null)) returning *
), plain as (
  insert into leasehold.job (id, available_at, created_at, lease_generation, max_attempts, crashes, priority,
    partition_bucket, line, salt, parent_id, queue, kind, payload, partition_key, idempotency_key, metadata,
    cancel_requested_at, cancel_reason)
  select id, leasehold.clock(), created_at, lease_generation, max_attempts,
    case reason when 'lease_expired' then greatest(crashes, 2) else 0 end, priority, partition_bucket,
    leasehold.line(queue, partition_key, partition_bucket), salt,
    parent_id, queue, kind, payload, partition_key, idempotency_key, metadata,
    case when begun then cancel_requested_at end, case when begun then cancel_reason end
  from (
    select revived.*, cancel_requested_at is not null and leasehold.has_begun(id) as begun from revived
  ) as revived
  returning id, queue, kind
), added as materialized (
  select id, queue, kind from plain
  union all
  select job_id, queue, kind
  from leasehold.redrive_in_order((select array_agg(id) from picked where key_seq is not null))
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, job_id, queue, kind)
  select leasehold.clock(), 'redrive', $2::text, 'pending', id, queue, kind from added
)
select id, (select leasehold.wake(array(select distinct queue from added))) as woken from added`

// The oldest dead letters of a queue.   $1 queue  $2 kind or null  $3 reason or null  $4 at most  $5 partition key or null
export const FIND_DEAD_LETTERS = `-- dead_letter.find
select id from leasehold.dead_letter
where queue = $1 and ($2::text is null or kind = $2) and ($3::text is null or reason = $3)
  and ($5::text is null or partition_key = $5)
order by died_at, id
limit $4`
