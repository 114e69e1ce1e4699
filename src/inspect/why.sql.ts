// Why a pending job does not run: the facts that decide, each by an index. Front: the first of its key, if it is blocked. Steps: what
// a run of a workflow waits for. Ahead: due jobs of its line that are claimed before it, counted up to a cap.
//   $1 job id  $2 cap
export const WHY_PENDING = `-- inspect.why_pending
select j.queue, j.kind, j.blocked, j.crashes, j.attempts, j.max_attempts, j.line, j.partition_key, array_to_json(j.waiting_for) as waiting_for,
  j.expires_at <= leasehold.clock() as is_expired, extract(epoch from j.expires_at) * 1000 as expires_ms,
  j.available_at > leasehold.clock() as is_future, extract(epoch from j.available_at) * 1000 as available_ms,
  (select extract(epoch from p.at) * 1000 from leasehold.pause p where p.queue = j.queue limit 1) as queue_paused_ms,
  (select extract(epoch from p.at) * 1000 from leasehold.pause p where p.kind = j.kind limit 1) as kind_paused_ms,
  (select q.ring from leasehold.queue q where q.name = j.queue) as ring,
  front.id as front_id, front.state as front_state, steps.waits,
  (
    select count(*) from leasehold.workers w
    where w.stopped_at is null and w.dead_at is null and w.state = 'active' and j.kind = any (w.kinds) and j.queue = any (w.queues)
  ) as handlers,
  (
    select count(*) from (
      select before.id
      from unnest('{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}'::smallint[]) as level (priority)
      cross join lateral (
        select a.id from leasehold.job a
        where a.queue = j.queue and a.line = j.line and a.priority = level.priority and not a.blocked and a.crashes = 0
          and a.available_at <= leasehold.clock() and a.claim_id is null
          and (level.priority < j.priority or (a.available_at, a.id) < (j.available_at, j.id))
        order by a.available_at, a.id
        limit $2
      ) before
      where level.priority <= j.priority
      limit $2
    ) as counted
  ) as ahead
from leasehold.job j
left join lateral (
  select f.id, f.state from (
    (
      select d.id, 'dead_letter' as state, d.key_seq from leasehold.dead_letter d
      where d.blocks_key and d.queue = j.queue and d.partition_key = j.partition_key and d.key_seq < j.key_seq
      order by d.key_seq limit 1
    )
    union all
    (
      select a.id, case when a.claim_id is null then 'pending' else 'processing' end, a.key_seq from leasehold.job a
      where a.queue = j.queue and a.partition_key = j.partition_key and a.key_seq < j.key_seq
      order by a.key_seq limit 1
    )
  ) as f
  where j.blocked
  order by f.key_seq limit 1
) front on true
left join lateral (
  select json_agg(json_build_object('name', s.name, 'type', s.type, 'state', s.state, 'childId', s.child_id::text,
    'untilMs', extract(epoch from s.wake_at) * 1000)) as waits
  from (
    select * from leasehold.step s
    where s.job_id = j.id and s.state in ('waiting', 'retrying')
    order by s.place limit 20
  ) as s
) steps on true
where j.id = $1 and j.claim_id is null`

// Whether a worker handles a kind. No row: the registry does not know it.   $1 worker  $2 kind
export const WORKER_HANDLES = `-- inspect.worker_handles
select $2 = any (w.kinds) as handles from leasehold.worker w where w.id = $1`

// Which worker holds a job, and whether its lease is over by the database's clock.   $1 job id
export const WHY_PROCESSING = `-- inspect.why_processing
select c.worker_id, (select w.label from leasehold.worker w where w.id = c.worker_id) as label,
  extract(epoch from c.expires_at) * 1000 as until_ms, c.expires_at <= leasehold.clock() as is_over
from leasehold.job j
cross join lateral (select * from leasehold.claim where claim.id = j.claim_id limit 1) c
where j.id = $1`
