// The public view has the state. Each statement has an index of its own: workers that have ended are many.

const COLUMNS = `id, label, version, mode, host, pid, array_to_json(kinds) as kinds, array_to_json(queues) as queues, state,
  extract(epoch from started_at) * 1000 as started_ms, extract(epoch from last_seen_at) * 1000 as last_seen_ms,
  extract(epoch from draining_at) * 1000 as draining_ms, extract(epoch from dead_at) * 1000 as dead_ms,
  extract(epoch from stopped_at) * 1000 as stopped_ms, held, running, event_loop_ms, memory_bytes, memory_limit_bytes`

// $1 states  $2 queue, or null  $3 workers at most
export const LIST_RUNNING_WORKERS = `-- inspect.list_running_workers
select ${COLUMNS}
from leasehold.workers
where stopped_at is null and dead_at is null and state = any ($1::text[]) and ($2::text is null or $2 = any (queues))
order by last_seen_at desc, id
limit $3`

// $1 queue, or null  $2 workers at most
export const LIST_DEAD_WORKERS = `-- inspect.list_dead_workers
select ${COLUMNS}
from leasehold.workers
where dead_at is not null and ($1::text is null or $1 = any (queues))
order by dead_at desc
limit $2`

// $1 queue, or null  $2 workers at most
export const LIST_STOPPED_WORKERS = `-- inspect.list_stopped_workers
select ${COLUMNS}
from leasehold.workers
where stopped_at is not null and ($1::text is null or $1 = any (queues))
order by stopped_at desc
limit $2`

// At most 1,024 rows.
export const LIST_SEATS = `-- inspect.list_seats
select worker_id, number from leasehold.seat where expires_at > leasehold.clock()`

// Newest first.   $1 worker, or null  $2 events at most
export const LIST_FLEET_EVENTS = `-- inspect.list_fleet_events
select id, what, worker_id, label, detail, extract(epoch from at) * 1000 as at_ms
from leasehold.fleet_events
where $1::uuid is null or worker_id = $1
order by id desc
limit $2`
