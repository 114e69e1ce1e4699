// Arrays are hidden behind a subselect, here and in every other statement: the planner then expects ten rows for any
// batch, custom plan or generic, and always probes by index (decisions/0004).

// The database alone knows which queues are ordered, fair or on the ring. If one of them is, these three store nothing and return no row, or no id;
// ENQUEUE_IN_ORDER is next.

// Columns that few jobs use travel in one jsonb, `more`, null for most: fifteen arrays would cost more than the insert.
// Workers that wait are woken once per queue; the scalar subquery runs once for any batch.
export const ENQUEUE = `-- job.enqueue
with added as (
  insert into leasehold.job (available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue, kind,
    payload, partition_key, metadata)
  select
    coalesce((i.more ->> 'available_at')::timestamptz, leasehold.clock() + i.delay_ms * interval '1 ms'),
    leasehold.clock(), i.max_attempts, i.priority, i.bucket, (i.more ->> 'expires_at')::timestamptz, i.queue, i.kind,
    i.payload::jsonb, i.more ->> 'partition_key', i.more -> 'metadata'
  from unnest((select $1::text[]), (select $2::text[]), (select $3::text[]), (select $4::smallint[]),
    (select $5::smallint[]), (select $6::smallint[]), (select $7::float8[]), (select $8::jsonb[]))
    as i (queue, kind, payload, priority, max_attempts, bucket, delay_ms, more)
  where not exists (select from leasehold.queue q where q.by_key and q.name = any ($1::text[]))
  returning id, queue, available_at
)
select id,
  (select leasehold.wake(array(select distinct queue from added where available_at <= leasehold.clock()))) as woken
from added`

// Most calls enqueue one job, or many that differ in their input alone; a quarter less to do than for any mixture. The inputs
// are one JSON array, which needs no escaping and is parsed once; so are the ids that come back.
//   $1 queue  $2 kind  $3 inputs  $4 priority  $5 max attempts  $6 buckets  $7 delay in ms
export const ENQUEUE_ALIKE = `-- job.enqueue_alike
with added as (
  insert into leasehold.job (available_at, created_at, max_attempts, priority, partition_bucket, queue, kind, payload)
  select leasehold.clock() + $7::float8 * interval '1 ms', leasehold.clock(), $5, $4, i.bucket, $1, $2, i.payload
  from rows from (jsonb_array_elements($3::text::jsonb), unnest((select $6::smallint[]))) as i (payload, bucket)
  where not exists (select from leasehold.queue q where q.by_key and q.name = $1)
  returning id
)
select array_agg(id) as ids,
  leasehold.wake(case when $7::float8 <= 0 and count(id) > 0 then array[$1::text] else '{}' end) as woken
from added`

// The unique index decides between racing enqueues: the second waits for the first transaction to end. DO NOTHING locks
// no existing row, so an enqueue never holds up the completion of the job it duplicates. Keys are inserted in one order,
// so two bulk calls cannot deadlock; a duplicate inside one call resolves to the first.
export const ENQUEUE_KEYED = `-- job.enqueue_keyed
with input as materialized (
  select nextval('leasehold.job_id') as id, i.*
  from unnest((select $1::text[]), (select $2::text[]), (select $3::text[]), (select $4::smallint[]),
    (select $5::smallint[]), (select $6::smallint[]), (select $7::float8[]), (select $8::jsonb[]),
    (select $9::text[]), (select $10::float8[])) with ordinality
    as i (queue, kind, payload, priority, max_attempts, bucket, delay_ms, more, key, keep_key_ms, position)
  where not exists (select from leasehold.queue q where q.by_key and q.name = any ($1::text[]))
), kept as (
  insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
  select queue, key, id, keep_key_ms * interval '1 ms', leasehold.input_hash(payload::jsonb),
    leasehold.key_due_at(keep_key_ms * interval '1 ms')
  from input where key is not null order by queue, key, position
  on conflict do nothing
  returning job_id
), added as (
  insert into leasehold.job (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue,
    kind, payload, partition_key, idempotency_key, metadata)
  select id, coalesce((more ->> 'available_at')::timestamptz, leasehold.clock() + delay_ms * interval '1 ms'),
    leasehold.clock(), max_attempts, priority, bucket, (more ->> 'expires_at')::timestamptz, queue, kind, payload::jsonb,
    more ->> 'partition_key', key, more -> 'metadata'
  from input where key is null or id in (select job_id from kept)
  returning queue, available_at
)
select position, case when key is null or id in (select job_id from kept) then id end as id,
  (select leasehold.wake(array(select distinct queue from added where available_at <= leasehold.clock()))) as woken
from input`

// $1–$8 as for ENQUEUE  $9, $10 as for ENQUEUE_KEYED, or null  $11 queues that the kinds declare as ordered
export const ENQUEUE_IN_ORDER = `-- job.enqueue_in_order
select place as position, job_id as id
from leasehold.enqueue_in_order($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
order by place`

// $1–$7 as for ENQUEUE_ALIKE  $8 keys
export const ENQUEUE_ALIKE_IN_ORDER = `-- job.enqueue_alike_in_order
select leasehold.enqueue_alike_in_order($1, $2, $3, $4, $5, $6, $7, $8, $9) as ids`

// A statement of its own, hence a new snapshot: it sees the row for which ENQUEUE_KEYED waited.
export const FIND_KEYED = `-- job.find_keyed
select i.position, k.job_id, k.input_hash = leasehold.input_hash(i.payload::jsonb) as same_input
from unnest((select $1::text[]), (select $2::text[]), (select $3::text[])) with ordinality
  as i (queue, key, payload, position)
cross join lateral (
  select job_id, input_hash from leasehold.idempotency_key where queue = i.queue and key = i.key limit 1
) k`
