// Pausing and resuming a queue or a kind. leasehold.claim() skips what is paused, so a pause holds for every claim that begins
// after it has committed. It neither waits for claims nor makes them wait: claims read the table without a lock.
//
// Each statement leaves a row in operator_action, also when there was nothing to change. Of two operators at once the second
// waits for the first, and finds the pause as that one left it.

// Workers that listen are notified: they may hold jobs that they have claimed and not started. So are they when the queue was
// paused before: the first notification may have been lost.   $1 queue or kind  $2 its name  $3 by
export const PAUSE = `-- operator.pause
with noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue, kind)
  select leasehold.clock(), 'pause', $3::text,
    case when leasehold.set_paused(queue, kind, $3::text, true) then 'paused' else 'already_paused' end, queue, kind
  from (select case $1::text when 'queue' then $2::text end as queue, case $1::text when 'kind' then $2::text end as kind) as of
  returning outcome
)
select outcome, leasehold.tell('pause', $1::text || ':' || $2::text) as notified from noted`

// Wakes the workers of the queue, or of the queue that is configured for the kind; also where leasehold.busy has it that they need
// not be: they have no jobs of this queue to be busy with.   $1 queue or kind  $2 its name  $3 by  $4 queue, unless configured
export const RESUME = `-- operator.resume
with configured as materialized (
  select coalesce((select queue from leasehold.kind where name = $2 and $1::text = 'kind'), $4::text) as queue
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue, kind)
  select leasehold.clock(), 'resume', $3::text,
    case when leasehold.set_paused(queue, kind, $3::text, false) then 'resumed' else 'not_paused' end, queue, kind
  from (select case $1::text when 'queue' then $2::text end as queue, case $1::text when 'kind' then $2::text end as kind) as of
  returning outcome
)
select noted.outcome, leasehold.tell('wake', configured.queue) as notified from noted cross join configured`

// Every queue and kind that is paused.
export const PAUSED = `-- queue.paused
select case when queue is null then 'kind' else 'queue' end as what, coalesce(queue, kind) as name from leasehold.pause`
