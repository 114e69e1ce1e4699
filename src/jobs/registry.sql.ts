// The registry of workers: a row per process, by its primary key. No index mentions last_seen_at, so each sighting is a
// heap-only update.

// The first registration and every later sighting, so a repeat after a lost reply changes nothing, and a row that was pruned
// while its worker was out of reach comes back.   $1 id  $2 label  $3 version  $4 kinds  $5 queues
export const REGISTER_WORKER = `-- worker.register
insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
values ($1, $2, $3, $4::text[], $5::text[], leasehold.clock(), leasehold.clock())
on conflict (id) do update set last_seen_at = excluded.last_seen_at, kinds = excluded.kinds, queues = excluded.queues`

// $1 id
export const WORKER_STOPPED = `-- worker.stopped
update leasehold.worker set stopped_at = leasehold.clock(), last_seen_at = leasehold.clock() where id = $1`

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

// Kinds of due jobs that no live worker handles. The first 1,000 due jobs of each queue and priority are looked at.
//   $1 queues  $2 due for so many ms
export const UNHANDLED_KINDS = `-- worker.unhandled_kinds
select j.queue, j.kind, count(*) as jobs
from unnest((select $1::text[])) as i (queue)
cross join generate_series(0, 9) as p (priority)
cross join lateral (
  select job.queue, job.kind from leasehold.job
  where job.queue = i.queue and job.priority = p.priority and not job.blocked and job.crashes = 0
    and job.available_at <= leasehold.clock() - $2 * interval '1 ms' and job.claim_id is null
  order by job.available_at, job.id
  limit 1000
) j
where not exists (
  select from leasehold.worker w
  where w.stopped_at is null and w.last_seen_at > leasehold.clock() - interval '90 s' and j.kind = any (w.kinds)
)
group by j.queue, j.kind
order by j.kind
limit 100`
