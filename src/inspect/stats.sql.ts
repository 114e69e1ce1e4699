// Counts for people and monitors. A count stops at a cap, and what it walks is capped too, so that the answer takes as long with a
// million jobs as with ten thousand.

// Queues that have jobs or dead letters, were configured, or have a worker that runs: a walk from name to name along each index, which reads one entry for each.
//   $1 queues at most
export const LIST_QUEUES = `-- inspect.list_queues
with recursive claimable (queue) as (
  select (select j.queue from leasehold.job j where not j.blocked and j.crashes = 0 and j.queue > '' order by j.queue limit 1)
  union all
  select (
    select j.queue from leasehold.job j where not j.blocked and j.crashes = 0 and j.queue > claimable.queue order by j.queue limit 1
  )
  from claimable where claimable.queue is not null
), suspect (queue) as (
  select (select j.queue from leasehold.job j where not j.blocked and j.crashes > 0 and j.queue > '' order by j.queue limit 1)
  union all
  select (
    select j.queue from leasehold.job j where not j.blocked and j.crashes > 0 and j.queue > suspect.queue order by j.queue limit 1
  )
  from suspect where suspect.queue is not null
), keyed (queue) as (
  select (select j.queue from leasehold.job j where j.key_seq is not null and j.queue > '' order by j.queue limit 1)
  union all
  select (select j.queue from leasehold.job j where j.key_seq is not null and j.queue > keyed.queue order by j.queue limit 1)
  from keyed where keyed.queue is not null
), dead (queue) as (
  select (select d.queue from leasehold.dead_letter d where d.queue > '' order by d.queue limit 1)
  union all
  select (select d.queue from leasehold.dead_letter d where d.queue > dead.queue order by d.queue limit 1)
  from dead where dead.queue is not null
)
select name from (
  select queue from (select queue from claimable limit $1) as c
  union select queue from (select queue from suspect limit $1) as s
  union select queue from (select queue from keyed limit $1) as k
  union select queue from (select queue from dead limit $1) as d
  union select q.name from leasehold.queue q
  union select k.queue from leasehold.kind k
  union select p.queue from leasehold.pause p
  union select unnest(w.queues) from leasehold.worker w
    where w.stopped_at is null and w.dead_at is null and w.last_seen_at > leasehold.clock() - interval '15 s'
) as found (name)
where name is not null
order by name
limit $1`

// What workers that run did between their last two beats, 5 s apart.
export const QUEUE_RATES = `-- inspect.queue_rates
select queue, sum(completed) as completed, sum(failed) as failed
from (
  select r.key as queue, (r.value ->> 0)::float8 as completed, (r.value ->> 1)::float8 as failed
  from leasehold.worker w
  cross join lateral jsonb_each(w.rates) r
  where w.stopped_at is null and w.dead_at is null and w.last_seen_at > leasehold.clock() - interval '15 s'
) as rates
group by queue`

// One row per queue. Its due and its future jobs lie apart at each level, a line and a priority, of the claim's index. The names come as
// a list: if the statement found them itself, the planner would expect hundreds, and compile the statement at every call (jit).
// Where jobs of paused kinds wait, the oldest is that of the capped walk: the other one would have to walk past all of them.
//   $1 cap of each count  $2 queues  $3 what is recent, in ms
export const STATS = `-- inspect.stats
with paused_kinds as materialized (
  select array(select p.kind from leasehold.pause p where p.kind is not null) as kinds
), held as materialized (
  select j.queue, count(*) as jobs
  from (
    select c.id as claim_id, unnest(c.job_ids) as id from leasehold.claim c where c.expires_at > '-infinity' limit $1
  ) as h
  cross join lateral (
    select job.queue from leasehold.job where job.id = h.id and job.claim_id = h.claim_id limit 1
  ) j
  group by j.queue
)
select named.name as queue, due.ready, due.paused, due.walked as due_walked, future.scheduled, future.retrying, future.waiting,
  future.walked as future_walked, suspects.ready as suspects, suspects.paused as paused_suspects, suspects.later as later_suspects, waits.blocked,
  waits.walked as keys_walked, coalesce((select held.jobs from held where held.queue = named.name), 0) as processing,
  letters.dead, letters.recent, extract(epoch from leasehold.clock() - least(case when due.paused > 0 then due.oldest else oldest.at end, suspects.oldest)) * 1000 as oldest_ms,
  (select extract(epoch from p.at) * 1000 from leasehold.pause p where p.queue = named.name limit 1) as paused_ms,
  (select count(*) from leasehold.queue q where q.name = named.name and q.ordered) as ordered,
  (select cardinality(kinds) from paused_kinds) as paused_kinds
from unnest((select $2::text[])) as named (name)
cross join lateral (
  with recursive level (line, priority) as (
    (
      select j.line, j.priority from leasehold.job j
      where j.queue = named.name and not j.blocked and j.crashes = 0
      order by j.line, j.priority limit 1
    )
    union all
    select next.line, next.priority
    from level
    cross join lateral (
      select j.line, j.priority from leasehold.job j
      where j.queue = named.name and not j.blocked and j.crashes = 0 and (j.line, j.priority) > (level.line, level.priority)
      order by j.line, j.priority limit 1
    ) next
  )
  select array_agg(l.line) as lines, array_agg(l.priority) as priorities from (select * from level limit 2000) as l
) levels
cross join lateral (
  select count(*) as walked, count(*) filter (where w.claim_id is null and not w.is_paused) as ready,
    count(*) filter (where w.claim_id is null and w.is_paused) as paused,
    min(w.available_at) filter (where w.claim_id is null and not w.is_paused) as oldest
  from (
    select one.*
    from unnest(levels.lines, levels.priorities) as level (line, priority)
    cross join lateral (
      select j.claim_id, j.available_at, j.kind = any ((select kinds from paused_kinds)::text[]) as is_paused from leasehold.job j
      where j.queue = named.name and j.line = level.line and j.priority = level.priority and not j.blocked and j.crashes = 0
        and j.available_at <= leasehold.clock()
      order by j.available_at, j.id
      limit $1
    ) one
    limit $1
  ) as w
) due
cross join lateral (
  select min(one.available_at) as at
  from unnest(levels.lines, levels.priorities) as level (line, priority)
  cross join lateral (
    select j.available_at from leasehold.job j
    where j.queue = named.name and j.line = level.line and j.priority = level.priority and not j.blocked and j.crashes = 0
      and j.available_at <= leasehold.clock() and j.claim_id is null
    order by j.available_at, j.id
    limit 1
  ) one
) oldest
cross join lateral (
  select count(*) as walked,
    count(*) filter (where w.claim_id is null and w.waiting_for is null and w.attempts = 0) as scheduled,
    count(*) filter (where w.claim_id is null and w.waiting_for is null and w.attempts > 0) as retrying,
    count(*) filter (where w.claim_id is null and w.waiting_for is not null) as waiting
  from (
    select one.*
    from unnest(levels.lines, levels.priorities) as level (line, priority)
    cross join lateral (
      select j.claim_id, j.waiting_for, j.attempts from leasehold.job j
      where j.queue = named.name and j.line = level.line and j.priority = level.priority and not j.blocked and j.crashes = 0
        and j.available_at > leasehold.clock()
      order by j.available_at, j.id
      limit $1
    ) one
    limit $1
  ) as w
) future
cross join lateral (
  select count(*) filter (where w.claim_id is null and w.available_at <= leasehold.clock() and not w.is_paused) as ready,
    count(*) filter (where w.claim_id is null and w.available_at <= leasehold.clock() and w.is_paused) as paused,
    count(*) filter (where w.claim_id is null and w.available_at > leasehold.clock()) as later,
    min(w.available_at) filter (where w.claim_id is null and w.available_at <= leasehold.clock() and not w.is_paused) as oldest
  from (
    select j.claim_id, j.available_at, j.kind = any ((select kinds from paused_kinds)::text[]) as is_paused from leasehold.job j
    where j.queue = named.name and not j.blocked and j.crashes > 0
    order by j.priority, j.available_at, j.id
    limit $1
  ) as w
) suspects
cross join lateral (
  select count(*) as walked, count(*) filter (where w.blocked) as blocked
  from (
    select j.blocked from leasehold.job j where j.queue = named.name and j.key_seq is not null
    order by j.partition_key, j.key_seq limit $1
  ) as w
) waits
cross join lateral (
  select count(*) as dead, (
    select count(*) from (
      select from leasehold.dead_letter d
      where d.queue >= named.name and d.queue <= named.name and d.died_at > leasehold.clock() - $3 * interval '1 ms'
      order by d.queue, d.died_at, d.id limit $1
    ) as r
  ) as recent
  from (
    select from leasehold.dead_letter d where d.queue >= named.name and d.queue <= named.name
    order by d.queue, d.died_at, d.id limit $1
  ) as w
) letters
order by named.name`
