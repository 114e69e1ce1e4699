// Order per key: what operators ask and do, and what housekeeping looks for. The order itself is kept by the functions of
// migrations/0010_order.sql.

// $1 queue  $2 partition key  $3 by
export const UNBLOCK = `-- operator.unblock
with cleared as materialized (
  select leasehold.unblock($1::text, $2::text) as letters
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue, detail)
  select leasehold.clock(), 'unblock', $3::text, case when letters > 0 then 'unblocked' else 'not_blocked' end, $1, $2
  from cleared
  returning outcome
)
select outcome from noted`

// Keys with jobs that wait behind another, those that have waited longest first.   $1 queue  $2 keys at most
export const BLOCKED_KEYS = `-- order.blocked_keys
select queue, key, waiting, job_id, why, extract(epoch from leasehold.clock() - since) * 1000 as for_ms
from leasehold.blocked_keys
where queue = $1
order by since, key
limit $2`

// Keys whose first job, or dead letter, has been there for $2 ms while others wait. Of each queue so many keys are looked at, and
// what waits in them is counted up to so many, that a look stays short.   $1 queues  $3 keys at most
export const LONG_WAITING_KEYS = `-- order.long_waiting
select queue, key, waiting, job_id, why, extract(epoch from leasehold.clock() - since) * 1000 as for_ms
from (select * from leasehold.blocked_keys where queue = any ((select $1::text[])::text[]) limit 10000) as looked
where since <= leasehold.clock() - $2 * interval '1 ms'
order by since
limit $3`

// Keys whose first job could run and has not for long: perhaps it was never let in, as when the job in front was deleted by hand.
//   $1 queues  $2 keys
export const LOOK_AGAIN = `-- order.look_again
insert into leasehold.order_check (queue, key)
select i.queue, i.key from unnest((select $1::text[]), (select $2::text[])) as i (queue, key)`

// Keys that could not be judged, of queues from which no worker claims this moment. Returns whether one of these queues is
// ordered.   $1 queues
export const CHECK_ORDER = `-- order.check
select leasehold.check_order(array(select distinct queue from leasehold.order_check limit 1000)) as let_in,
  exists (select from leasehold.queue where ordered and name = any ((select $1::text[])::text[])) as any_ordered`
