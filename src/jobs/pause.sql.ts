// Pausing and resuming a queue or a kind. leasehold.claim() skips what is paused, so a pause holds for every claim that begins
// after it has committed. It neither waits for claims nor makes them wait: claims read these rows without a lock.
//
// Each statement leaves a row in operator_action, also when there was nothing to change. Of two operators at once the second
// waits for the first, and finds the row as that one left it.

// Workers that listen are notified: they may hold jobs that they have claimed and not started. So are they when the queue was
// paused before: the first notification may have been lost.   $1 queue  $2 by
export const PAUSE_QUEUE = `-- queue.pause
with paused as (
  insert into leasehold.queue (name, paused_at, paused_by) values ($1, leasehold.clock(), $2)
  on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
  where queue.paused_at is null
  returning name
), judged as materialized (
  select case count(*) when 0 then 'already_paused' else 'paused' end as outcome, leasehold.clock() as at from paused
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue)
  select at, 'pause', $2::text, outcome, $1::text from judged
)
select outcome, leasehold.tell('pause', 'queue:' || $1::text) as told from judged`

//   $1 kind  $2 by
export const PAUSE_KIND = `-- kind.pause
with paused as (
  insert into leasehold.kind (name, paused_at, paused_by) values ($1, leasehold.clock(), $2)
  on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
  where kind.paused_at is null
  returning name
), judged as materialized (
  select case count(*) when 0 then 'already_paused' else 'paused' end as outcome, leasehold.clock() as at from paused
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, kind)
  select at, 'pause', $2::text, outcome, $1::text from judged
)
select outcome, leasehold.tell('pause', 'kind:' || $1::text) as told from judged`

// Workers are woken even where leasehold.busy has it that they need not be: they have no jobs of this queue to be busy with.
//   $1 queue  $2 by
export const RESUME_QUEUE = `-- queue.resume
with resumed as (
  update leasehold.queue set paused_at = null, paused_by = null where name = $1 and paused_at is not null returning name
), judged as materialized (
  select case count(*) when 0 then 'not_paused' else 'resumed' end as outcome, leasehold.clock() as at from resumed
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, queue)
  select at, 'resume', $2::text, outcome, $1::text from judged
)
select outcome, leasehold.tell('wake', $1::text) as told from judged`

// Wakes the queue that is configured for the kind.   $1 kind  $2 by  $3 queue of a kind that is not configured
export const RESUME_KIND = `-- kind.resume
with configured as materialized (
  select coalesce((select queue from leasehold.kind where name = $1), $3::text) as queue
), resumed as (
  update leasehold.kind set paused_at = null, paused_by = null where name = $1 and paused_at is not null returning name
), judged as materialized (
  select case count(*) when 0 then 'not_paused' else 'resumed' end as outcome, leasehold.clock() as at from resumed
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, kind)
  select at, 'resume', $2::text, outcome, $1::text from judged
)
select judged.outcome, leasehold.tell('wake', configured.queue) as told from judged cross join configured`

// Every queue and kind that is paused: few, and in an index of their own.
export const PAUSED = `-- queue.paused
select 'queue' as what, name from leasehold.queue where paused_at is not null
union all
select 'kind', name from leasehold.kind where paused_at is not null`
