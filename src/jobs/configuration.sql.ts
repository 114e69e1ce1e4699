// What configure() stores. A row per queue and per kind, and one row of settings.

// One statement: a deploy stores all of it or nothing. Rows are locked in one order, queues by name, then kinds by name, then
// the settings, so two deploys at a time cannot deadlock; each subselect over the part before makes that part run first.
// A queue that is only named by a kind is added if it is missing, and keeps its options. Pauses are never touched. One that has left the
// ring may have jobs in its lines for long, so workers go on looking there: its ring is off, not null.
//   $1 queues  $2 ordered  $3 on dead letter  $4 queues that were declared
//   $5 kinds  $6 queue  $7 priority  $8 max attempts  $9 keep in ms  $10 keep the key in ms
//   $11–$15 retention in ms of dead letters, attempts, effects, workers, events; null: as it is  $16 whether the queues wake workers
//   $17 fair  $18 ring
export const STORE_CONFIGURATION = `-- configuration.store
with queues as (
  insert into leasehold.queue (name, ordered, on_dead_letter, wakes, fair, ring)
  select i.name, i.ordered, i.on_dead_letter, i.wakes, i.fair, i.ring
  from unnest((select $1::text[]), (select $2::boolean[]), (select $3::text[]), (select $16::boolean[]),
    (select $17::boolean[]), (select $18::text[])) as i (name, ordered, on_dead_letter, wakes, fair, ring)
  order by i.name
  on conflict (name) do update
  set on_dead_letter = excluded.on_dead_letter, wakes = excluded.wakes, fair = excluded.fair,
    ring = coalesce(excluded.ring, case when queue.ring is not null then 'off' end)
  where queue.name = any ($4::text[]) and (queue.on_dead_letter, queue.wakes, queue.fair, queue.ring)
    is distinct from (excluded.on_dead_letter, excluded.wakes, excluded.fair, excluded.ring)
  returning name
), kinds as (
  insert into leasehold.kind (name, queue, priority, max_attempts, keep, keep_key)
  select i.name, i.queue, i.priority, i.max_attempts, i.keep_ms * interval '1 ms', i.keep_key_ms * interval '1 ms'
  from unnest((select $5::text[]), (select $6::text[]), (select $7::smallint[]), (select $8::smallint[]),
    (select $9::float8[]), (select $10::float8[])) as i (name, queue, priority, max_attempts, keep_ms, keep_key_ms)
  where (select count(*) from queues) >= 0
  order by i.name
  on conflict (name) do update set queue = excluded.queue, priority = excluded.priority,
    max_attempts = excluded.max_attempts, keep = excluded.keep, keep_key = excluded.keep_key
  where (kind.queue, kind.priority, kind.max_attempts, kind.keep, kind.keep_key)
    is distinct from (excluded.queue, excluded.priority, excluded.max_attempts, excluded.keep, excluded.keep_key)
  returning name
), kept as (
  update leasehold.settings
  set keep_dead_letters = coalesce($11::float8 * interval '1 ms', keep_dead_letters),
    keep_attempts = coalesce($12::float8 * interval '1 ms', keep_attempts),
    keep_effects = coalesce($13::float8 * interval '1 ms', keep_effects),
    keep_workers = coalesce($14::float8 * interval '1 ms', keep_workers),
    keep_events = coalesce($15::float8 * interval '1 ms', keep_events)
  where id = 1 and coalesce($11, $12, $13, $14, $15) is not null and (select count(*) from kinds) >= 0
  returning id
)
select (select count(*) from queues) as queues, (select count(*) from kinds) as kinds,
  (select count(*) from kept) as settings`

// Before the rest is stored, since it may be refused.   $1 queues that were declared  $2 ordered
export const SET_ORDERED = `-- configuration.set_ordered
select leasehold.set_ordered($1, $2)`

// How long rows are kept.
export const READ_SETTINGS = `-- settings.read
select extract(epoch from keep_dead_letters) * 1000 as dead_letters_ms,
  extract(epoch from keep_attempts) * 1000 as attempts_ms, extract(epoch from keep_effects) * 1000 as effects_ms,
  extract(epoch from keep_workers) * 1000 as workers_ms, extract(epoch from keep_events) * 1000 as events_ms
from leasehold.settings where id = 1`

// Kinds as they were stored. Null: never configured.   $1 names
export const READ_KINDS = `-- kind.read
select name, queue, priority, max_attempts, extract(epoch from keep) * 1000 as keep_ms,
  extract(epoch from keep_key) * 1000 as keep_key_ms
from leasehold.kind where name = any ((select $1::text[])::text[])
order by name`

// Pending jobs of these kinds in other queues than theirs: no worker claims them there once the kind has moved. A walk from queue to
// queue by the claim's index, which reads one entry for each, and a look at the first jobs in each; so a few may be missed.
//   $1 kinds  $2 their queues  $3 queues at most  $4 jobs of each at most
export const FIND_STRANDED = `-- job.stranded
with recursive found (queue) as (
  select (select j.queue from leasehold.job j where not j.blocked and j.crashes = 0 order by j.queue limit 1)
  union all
  select (
    select j.queue from leasehold.job j where not j.blocked and j.crashes = 0 and j.queue > found.queue
    order by j.queue limit 1
  )
  from found where found.queue is not null
), visited as materialized (
  select queue from found where queue is not null limit $3
)
select visited.queue, ahead.kind, count(*) as jobs
from visited
cross join lateral (
  select j.kind from leasehold.job j
  where j.queue = visited.queue and not j.blocked and j.crashes = 0 and j.claim_id is null
  order by j.line, j.priority, j.available_at, j.id
  limit $4
) ahead
where exists (
  select from unnest((select $1::text[]), (select $2::text[])) as i (kind, queue)
  where i.kind = ahead.kind and i.queue <> visited.queue
)
group by visited.queue, ahead.kind
order by ahead.kind, visited.queue`
