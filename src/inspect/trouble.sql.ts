// What an operator should know of, apart from the counts of queues.

// Queues and kinds that are paused, the longest first.
export const LIST_PAUSES = `-- inspect.list_pauses
select case when queue is null then 'kind' else 'queue' end as what, coalesce(queue, kind) as name, by,
  extract(epoch from at) * 1000 as at_ms
from leasehold.pause order by at, queue, kind`

// Keys of ordered queues that a dead letter blocks.   $1 cap
export const COUNT_BLOCKED_KEYS = `-- inspect.count_blocked_keys
select queue, count(*) as letters, min(id) as first_id
from (
  select d.queue, d.id from leasehold.dead_letter d where d.blocks_key and d.queue > '' order by d.queue, d.partition_key, d.key_seq limit $1
) as letters
group by queue order by queue`

// Kinds of due jobs that no live worker handles, of the first jobs of each level of a queue and of its first suspects.   $1 queues  $2 due for so many ms
// $3 jobs of each queue at most
export const FIND_UNHANDLED = `-- inspect.find_unhandled
select waiting.queue, waiting.kind, waiting.job_id
from (
  select first.queue, first.kind, min(first.id) as job_id
  from unnest((select $1::text[])) as i (queue)
  cross join lateral (
    (
      select j.id, j.queue, j.kind from leasehold.job j
      where j.queue = i.queue and not j.blocked and j.crashes = 0 and j.claim_id is null
        and j.available_at <= leasehold.clock() - $2 * interval '1 ms'
      order by j.line, j.priority, j.available_at, j.id
      limit $3
    )
    union all
    (
      select j.id, j.queue, j.kind from leasehold.job j
      where j.queue = i.queue and not j.blocked and j.crashes > 0 and j.claim_id is null
        and j.available_at <= leasehold.clock() - $2 * interval '1 ms'
      order by j.priority, j.available_at, j.id
      limit $3
    )
  ) first
  group by first.queue, first.kind
) as waiting
where not exists (
  select from leasehold.workers w
  where w.stopped_at is null and w.dead_at is null and w.state in ('active', 'draining') and waiting.kind = any (w.kinds) and waiting.queue = any (w.queues)
)
order by waiting.queue, waiting.kind`

// Workers that died lately, also those whose death no worker has noted.   $1 for so many ms
export const FIND_DEAD_WORKERS = `-- inspect.find_dead_workers
select label, extract(epoch from last_seen_at) * 1000 as seen_ms
from (
  (select * from leasehold.workers where stopped_at is null and dead_at is null and state = 'dead' limit 20)
  union all
  (select * from leasehold.workers where dead_at > leasehold.clock() - $1 * interval '1 ms' order by dead_at desc limit 20)
) as dead
where last_seen_at > leasehold.clock() - $1 * interval '1 ms'
order by last_seen_at desc
limit 20`

// Whether our role sees the transactions of all roles: of others pg_stat_activity has no xact_start without that membership.
export const SEES_TRANSACTIONS = `-- inspect.sees_transactions
select current_user as role, pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all`

// Transactions that have been open for long: they keep dead rows from being removed, so claims get slower.   $1 for so many ms
export const FIND_HELD_TRANSACTIONS = `-- inspect.find_held_transactions
select a.pid, a.usename, a.application_name, a.state, extract(epoch from now() - a.xact_start) * 1000 as for_ms
from pg_stat_activity a
where a.xact_start <= now() - $1 * interval '1 ms' and a.datname = current_database() and a.backend_type = 'client backend'
  and a.pid <> pg_backend_pid()
order by a.xact_start
limit 20`
