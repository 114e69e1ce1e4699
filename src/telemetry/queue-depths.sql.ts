// What a scrape reads. Each part walks an index and stops at its cap, so a scrape costs the same however long the queues are.

// The queues of jobs, of suspects (whose worker died) and of dead letters are found by skipping from name to name. A job that was claimed keeps its place in the index,
// so both states are counted in one walk, in the order of claims. Jobs behind another of their key are not in that index.
//   $1 queues at most  $2 rows of a queue at most
export const QUEUE_DEPTHS = `-- telemetry.queue_depths
with recursive named as (
  (select queue, 1 as position from leasehold.job where not blocked and crashes = 0 order by queue limit 1)
  union all
  select next.queue, named.position + 1
  from named
  cross join lateral (
    select queue from leasehold.job
    where not blocked and crashes = 0 and job.queue > named.queue order by queue limit 1
  ) next
  where named.position < $1
), suspected as (
  (select queue, 1 as position from leasehold.job where not blocked and crashes > 0 order by queue limit 1)
  union all
  select next.queue, suspected.position + 1
  from suspected
  cross join lateral (
    select queue from leasehold.job
    where not blocked and crashes > 0 and job.queue > suspected.queue order by queue limit 1
  ) next
  where suspected.position < $1
), buried as (
  (select queue, 1 as position from leasehold.dead_letter order by queue limit 1)
  union all
  select next.queue, buried.position + 1
  from buried
  cross join lateral (
    select queue from leasehold.dead_letter where dead_letter.queue > buried.queue order by queue limit 1
  ) next
  where buried.position < $1
)
select q.queue, j.ready, j.scheduled, j.processing, j.oldest_seconds, d.dead_letters
from (select queue from named union select queue from suspected union select queue from buried order by queue limit $1) q
cross join lateral (
  select
    count(*) filter (where claim_id is null and available_at <= leasehold.clock()) as ready,
    count(*) filter (where claim_id is null and available_at > leasehold.clock()) as scheduled,
    count(*) filter (where claim_id is not null) as processing,
    coalesce(extract(epoch from leasehold.clock() - min(available_at)
      filter (where claim_id is null and available_at <= leasehold.clock())), 0) as oldest_seconds
  from (
    (
      select claim_id, available_at from leasehold.job
      where job.queue = q.queue and not blocked and crashes = 0
      order by line, priority, available_at, id
      limit $2
    )
    union all
    (
      select claim_id, available_at from leasehold.job
      where job.queue = q.queue and not blocked and crashes > 0
      order by priority, available_at, id
      limit $2
    )
  ) first_jobs
) j
cross join lateral (
  select count(*) as dead_letters
  from (select from leasehold.dead_letter where dead_letter.queue = q.queue order by died_at, id limit $2) letters
) d
order by q.queue`

// Workers that have not ended.   $1 workers at most
export const WORKER_COUNTS = `-- telemetry.worker_counts
select
  count(*) filter (where state = 'active') as active,
  count(*) filter (where state = 'draining') as draining,
  count(*) filter (where state = 'dead') as silent
from (
  select state from leasehold.workers where stopped_at is null and dead_at is null and mode <> 'by_hand' limit $1
) running`

// Rows that vacuum has not removed, and the oldest transaction of this database that our role may see.
export const SERVER_STATE = `-- telemetry.server_state
select
  (select n_dead_tup from pg_stat_all_tables where relid = 'leasehold.job'::regclass) as dead_rows,
  (select pg_total_relation_size('leasehold.job'::regclass)) as job_bytes,
  (
    select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)
    from pg_stat_activity where datname = current_database() and xact_start is not null
  ) as oldest_transaction_seconds`
