// Pausing and resuming a queue or a kind. leasehold.claim() skips what is paused, so a pause holds for every claim that begins
// after it has committed. It neither waits for claims nor makes them wait: claims read these rows without a lock.
//
// Each statement leaves a row in operator_action, also when there was nothing to change. Of two operators at once the second
// waits for the first, and finds the row as that one left it.

// Workers that listen are notified: they may hold jobs that they have claimed and not started. So are they when the queue was
// paused before: the first notification may have been lost.   $1 queue or kind  $2 its name  $3 by
export const PAUSE = `-- operator.pause
with paused_queue as (
  insert into leasehold.queue (name, paused_at, paused_by) select $2::text, leasehold.clock(), $3::text where $1::text = 'queue'
  on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
  where queue.paused_at is null
  returning name
), paused_kind as (
  insert into leasehold.kind (name, paused_at, paused_by) select $2::text, leasehold.clock(), $3::text where $1::text = 'kind'
  on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
  where kind.paused_at is null
  returning name
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue, kind)
  select leasehold.clock(), 'pause', $3::text,
    case when exists (select from paused_queue) or exists (select from paused_kind) then 'paused' else 'already_paused' end,
    case $1::text when 'queue' then $2::text end, case $1::text when 'kind' then $2::text end
  returning outcome
)
select outcome, leasehold.tell('pause', $1::text || ':' || $2::text) as notified from noted`

// Wakes the workers of the queue, or of the queue that is configured for the kind; also where leasehold.busy has it that they need
// not be: they have no jobs of this queue to be busy with.   $1 queue or kind  $2 its name  $3 by  $4 queue, unless configured
export const RESUME = `-- operator.resume
with configured as materialized (
  select coalesce((select queue from leasehold.kind where name = $2 and $1::text = 'kind'), $4::text) as queue
), resumed_queue as (
  update leasehold.queue set paused_at = null, paused_by = null
  where name = $2 and $1::text = 'queue' and paused_at is not null
  returning name
), resumed_kind as (
  update leasehold.kind set paused_at = null, paused_by = null
  where name = $2 and $1::text = 'kind' and paused_at is not null
  returning name
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue, kind)
  select leasehold.clock(), 'resume', $3::text,
    case when exists (select from resumed_queue) or exists (select from resumed_kind) then 'resumed' else 'not_paused' end,
    case $1::text when 'queue' then $2::text end, case $1::text when 'kind' then $2::text end
  returning outcome
)
select noted.outcome, leasehold.tell('wake', configured.queue) as notified from noted cross join configured`

// Every queue and kind that is paused: few, and in an index of their own.
export const PAUSED = `-- queue.paused
select 'queue' as what, name from leasehold.queue where paused_at is not null
union all
select 'kind', name from leasehold.kind where paused_at is not null`
