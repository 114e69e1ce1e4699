// Rows written to the history since the server's counters were reset: jobs that have ended, and attempts that did not complete one.
export const COUNT_WRITTEN = `-- inspect.count_written
select (
    select sum(pg_stat_get_tuples_inserted(relid)) from pg_partition_tree('leasehold.archive') where isleaf
  ) as finished, (
    select sum(pg_stat_get_tuples_inserted(relid)) from pg_partition_tree('leasehold.job_attempt') where isleaf
  ) as other_attempts`

// The database that a command is about to change.
export const DESCRIBE_DATABASE = `-- inspect.describe_database
select current_database() as database, coalesce(host(inet_server_addr()), 'a local socket') as host, inet_server_port() as port`

// Kinds and queues by name: those that were configured, and those of workers that run. A kind in neither has no defaults. Of a kind that
// is only handled, the queue is known if its workers have but one, or if one has its name, as is the default. Ended: kinds of workers that
// are still in the registry; their jobs may wait.
export const KNOWN_NAMES = `-- inspect.known_names
select 'kind' as what, k.name, k.queue, k.priority, k.max_attempts, extract(epoch from k.keep_key) * 1000 as keep_key_ms
from leasehold.kind k
union all
select 'kind', handled.name,
  case when handled.name = any (w.queues) then handled.name when cardinality(w.queues) = 1 then w.queues[1] end, null, null, null
from leasehold.workers w cross join lateral unnest(w.kinds) as handled (name)
where w.stopped_at is null and w.dead_at is null
union all
select distinct 'ended', unnest(w.kinds), null, null::int, null::int, null::numeric
from leasehold.worker w where w.stopped_at is not null or w.dead_at is not null
union all
select 'queue', q.name, null, null, null, null from leasehold.queue q
union all
select 'queue', unnest(w.queues), null, null, null, null from leasehold.workers w where w.stopped_at is null and w.dead_at is null`
