// The registry of workers: a row per process, by its primary key. No index mentions a column that a beat changes, so each is a
// heap-only update.

// The first registration, and each one that a beat leaves to do.
//   $1 id  $2 label  $3 version  $4 mode  $5 host  $6 pid  $7 kinds  $8 queues  $9 limit of memory in bytes  $10 whether it drains
export const REGISTER_WORKER = `-- worker.register
select leasehold.register_worker($1, $2, $3, $4, $5, $6, $7::text[], $8::text[], $9, $10) as outcome`

// Changes no row of a worker that was deleted, or noted as dead: then it registers again.
// Returns whether another worker has missed three beats, or was seen in the future. That reads a row per worker that runs, which
// costs less than a statement of its own.
//   $1 id  $2 held jobs  $3 running jobs  $4 delay of the event loop in ms  $5 memory in bytes  $6 rates
export const BEAT = `-- worker.beat
with beaten as (
  update leasehold.worker
  set last_seen_at = leasehold.clock(), held = $2, running = $3, event_loop_ms = $4, memory_bytes = $5,
    rates = $6::jsonb
  where id = $1 and stopped_at is null and dead_at is null
  returning id
)
select exists (
  select from leasehold.worker w
  where w.stopped_at is null and w.dead_at is null and w.mode <> 'by_hand' and w.id <> $1
    and (w.last_seen_at <= leasehold.clock() - interval '15 s' or w.last_seen_at > leasehold.clock() + interval '15 s')
) as silence
from beaten`

// $1 id
export const WORKER_DRAINS = `-- worker.drains
with draining as (
  update leasehold.worker set draining_at = leasehold.clock(), last_seen_at = leasehold.clock()
  where id = $1 and draining_at is null
  returning id, label, mode
)
select leasehold.note_fleet('draining', id, label) from draining where mode = 'worker'`

// $1 id
export const WORKER_STOPPED = `-- worker.stopped
with stopped as (
  update leasehold.worker
  set stopped_at = leasehold.clock(), last_seen_at = leasehold.clock(), dead_at = null, held = case when held is not null then 0 end,
    running = case when running is not null then 0 end
  where id = $1
  returning id, label, mode
)
select leasehold.note_fleet('left', id, label) from stopped where mode = 'worker'`

// $1 the worker that looks
export const NOTE_DEATHS = `-- worker.note_deaths
select worker_id, label, silent_ms, held, running from leasehold.note_deaths($1)`

// A process that claims by hand does not beat. When it has not claimed for an hour, and holds nothing, it has stopped.
export const STOP_SILENT_CLAIMERS = `-- worker.stop_silent_claimers
update leasehold.worker
set stopped_at = last_seen_at
where stopped_at is null and dead_at is null and mode = 'by_hand' and last_seen_at <= leasehold.clock() - interval '1 hour'
  and (select true from leasehold.claim c where c.worker_id = worker.id limit 1) is null`

// A worker that holds a claim stays, however long ago it was seen: the sweep is about to find out.
//   $1 age in ms  $2 workers at most
export const PRUNE_WORKERS = `-- worker.prune
delete from leasehold.worker
where id = any (array(
  select id from leasehold.worker w
  where last_seen_at <= leasehold.clock() - $1 * interval '1 ms'
    and (select true from leasehold.claim c where c.worker_id = w.id limit 1) is null
  limit $2
  for update skip locked
))
returning id`

// $1 age in ms  $2 actions at most
export const PRUNE_ACTIONS = `-- operator_action.prune
delete from leasehold.operator_action
where id = any (array(
  select id from leasehold.operator_action
  where at <= leasehold.clock() - $1 * interval '1 ms'
  order by at
  limit $2
  for update skip locked
))
returning id`

// $1 age in ms  $2 events at most
export const PRUNE_FLEET_EVENTS = `-- fleet_event.prune
delete from leasehold.fleet_event
where id = any (array(
  select id from leasehold.fleet_event
  where at <= leasehold.clock() - $1 * interval '1 ms'
  order by at
  limit $2
  for update skip locked
))
returning id`

// Kinds of due jobs that no live worker handles. A worker that drains counts: in a deploy its successor is about to start. The first 1,000 due jobs of each queue and priority are looked at.
//   $1 queues  $2 due for so many ms
export const UNHANDLED_KINDS = `-- worker.unhandled_kinds
select j.queue, j.kind, count(*) as jobs
from unnest((select $1::text[])) as i (queue)
cross join generate_series(0, 9) as p (priority)
cross join lateral (
  select job.queue, job.kind from leasehold.job
  where job.queue = i.queue and job.line = 0 and job.priority = p.priority and not job.blocked and job.crashes = 0
    and job.available_at <= leasehold.clock() - $2 * interval '1 ms' and job.claim_id is null
  order by job.available_at, job.id
  limit 1000
) j
where not exists (
  select from leasehold.worker w
  where w.stopped_at is null and w.dead_at is null and j.kind = any (w.kinds)
)
group by j.queue, j.kind
order by j.kind
limit 100`

// Which of these kinds no live worker handles, unless no worker has ever run here. By the view: if all workers have died, none is
// left to note it.   $1 kinds
export const NOT_HANDLED = `-- worker.not_handled
select i.kind
from unnest((select $1::text[])) as i (kind)
where exists (select from leasehold.worker)
  and not exists (
    select from leasehold.workers w
    where w.stopped_at is null and w.dead_at is null and w.state in ('active', 'draining') and i.kind = any (w.kinds)
  )`
