// The specification's one table, in which a job lives for ever, with the partial indexes on status that claim and lease
// recovery need. Where it leaves room we chose what is fast: a bigint id, no index for keys or dead letters, batches.

export const CREATE_TABLE = `create table inbox (
  id               bigint generated always as identity primary key,
  queue            text not null,
  type             text not null,
  payload          jsonb not null,
  payload_version  int not null default 1,
  partition_key    text,
  partition_bucket int not null check (partition_bucket >= 0 and partition_bucket < 1024),
  idempotency_key  text,
  status           text not null default 'pending',
  priority         int not null default 5,
  available_at     timestamptz not null default now(),
  attempts         int not null default 0,
  max_attempts     int not null default 5,
  claimed_by       text,
  claimed_at       timestamptz,
  lease_expires_at timestamptz,
  lease_generation bigint not null default 0,
  last_error       text,
  created_at       timestamptz not null default now(),
  completed_at     timestamptz
)`

export const CREATE_INDEXES = [
  `create unique index inbox_idempotency on inbox (idempotency_key) where idempotency_key is not null`,
  `create index inbox_claim on inbox (priority, available_at, id) where status = 'pending'`,
  `create index inbox_lease on inbox (lease_expires_at) where status = 'processing'`,
]

export const CREATE_ARCHIVE = [
  `create table inbox_archive (like inbox, constraint inbox_archive_pkey primary key (id, completed_at))
    partition by range (completed_at)`,
  `do $$
  begin
    for ahead in 0 .. 1 loop
      execute format('create table %I partition of inbox_archive for values from (%L) to (%L)',
        'inbox_archive_' || ahead, current_date + ahead, current_date + ahead + 1);
    end loop;
  end
  $$`,
]

//   $1 queues  $2 types  $3 payloads  $4 priorities  $5 buckets
export const ENQUEUE = `-- inbox.enqueue
insert into inbox (queue, type, payload, priority, partition_bucket)
select queue, type, payload::jsonb, priority, bucket
from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[]) as i (queue, type, payload, priority, bucket)
returning id`

//   $1 worker  $2 limit  $3 types
export const CLAIM = `-- inbox.claim
with claimed as (
  update inbox
  set status = 'processing', claimed_by = $1, claimed_at = now(), lease_expires_at = now() + interval '90 seconds',
    lease_generation = lease_generation + 1, attempts = attempts + 1
  where id = any (array(
    select id from inbox
    where status = 'pending' and available_at <= now() and type = any ($3::text[])
    order by priority, available_at, id
    limit $2
    for update skip locked
  ))
  returning id, lease_generation, attempts, max_attempts, queue, type, payload, priority, available_at, created_at,
    payload_version, partition_key
)
select * from claimed order by priority, available_at, id`

//   $1 ids  $2 generations
export const COMPLETE = `-- inbox.complete
with held as materialized (
  select x.id
  from unnest((select $1::bigint[]), (select $2::bigint[])) as u (id, generation)
  cross join lateral (
    select id from inbox where id = u.id and lease_generation = u.generation and status = 'processing' limit 1 for update
  ) x
)
update inbox set status = 'completed', completed_at = now() where id = any (array(select id from held))
returning id`

//   $1 ids  $2 generations
export const ARCHIVE = `-- inbox.archive
with held as materialized (
  select x.id
  from unnest((select $1::bigint[]), (select $2::bigint[])) as u (id, generation)
  cross join lateral (
    select id from inbox where id = u.id and lease_generation = u.generation and status = 'processing' limit 1 for update
  ) x
), ended as (
  delete from inbox where id = any (array(select id from held)) returning *
), kept as (
  insert into inbox_archive
  select id, queue, type, payload, payload_version, partition_key, partition_bucket, idempotency_key, 'completed', priority,
    available_at, attempts, max_attempts, claimed_by, claimed_at, lease_expires_at, lease_generation, last_error,
    created_at, now()
  from ended
)
select id from ended`

export const COUNT = `-- inbox.count
select count(*) filter (where status <> 'completed') as unfinished,
  count(*) filter (where status = 'completed') as finished
from inbox`

export const COUNT_ARCHIVED = `-- inbox.count_archived
select (select count(*) from inbox) as unfinished, (select count(distinct id) from inbox_archive) as finished`
