-- serves code from: 1
--
-- The storage of jobs. The shape follows one rule: no index, and no index predicate, mentions a column that a claim
-- changes, so that every claim is a heap-only update (decisions/0001). What follows from it:
--   job              unfinished work only; a finished row leaves
--   claim            one row per claim call: who, until when, which jobs; the lease belongs to the claim
--   archive          completed and cancelled jobs, one partition for each day on which they are forgotten
--   dead_letter      jobs that need a person
--   job_attempt      attempts that did not succeed, one partition a day
--   idempotency_key  immutable: written with the job, deleted some time after the job has finished

-- The only clock that decides. SQL and stable without a SET clause, so that it is inlined and indexes apply.
-- statement_timestamp() rather than now(): inside a caller's long transaction now() stands still.
create function leasehold.clock() returns timestamptz
  language sql stable parallel safe
  return pg_catalog.statement_timestamp();

create type leasehold.job_status as enum ('pending', 'processing', 'completed', 'dead_letter', 'cancelled');

create type leasehold.attempt_outcome as enum ('failed', 'crashed', 'released');

create sequence leasehold.job_id as bigint;

-- A row is processing exactly when claim_id is set: one fact, stored once, so status and owner cannot disagree.
-- The columns a claim changes lie side by side, so that its WAL record holds little else.
create table leasehold.job (
  id                  bigint not null default nextval('leasehold.job_id'),
  available_at        timestamptz not null,
  created_at          timestamptz not null,
  lease_generation    bigint not null default 0,
  claim_id            bigint,
  claimed_at          timestamptz,
  attempts            smallint not null default 0,
  max_attempts        smallint not null default 5,
  crashes             smallint not null default 0,
  priority            smallint not null default 5,
  partition_bucket    smallint not null,
  payload_version     smallint not null default 1,
  blocked             boolean not null default false,
  expires_at          timestamptz,
  cancel_requested_at timestamptz,
  queue               text not null,
  kind                text not null,
  payload             jsonb not null,
  partition_key       text,
  idempotency_key     text,
  metadata            jsonb,
  tags                text[],
  progress            jsonb,
  constraint job_pkey primary key (id),
  constraint processing_knows_its_claim check ((claim_id is null) = (claimed_at is null)),
  constraint attempts_within_bounds check (attempts between 0 and max_attempts and lease_generation >= attempts),
  constraint pending_has_an_attempt_left check (claim_id is not null or attempts < max_attempts),
  constraint priority_is_a_digit check (priority between 0 and 9),
  constraint bucket_on_the_ring check (partition_bucket between 0 and 1023)
) with (
  fillfactor = 45,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1
);

alter sequence leasehold.job_id owned by leasehold.job.id;

-- What a worker walks. A job whose lease once ran out may be what killed its worker: it leaves this index for the next.
create index job_to_claim on leasehold.job (queue, priority, available_at, id) where not blocked and crashes = 0;

-- Suspects are claimed apart, in smaller and smaller company (decisions/0007).
create index job_suspect on leasehold.job (queue, priority, available_at, id) where not blocked and crashes > 0;

create index job_to_expire on leasehold.job (expires_at) where expires_at is not null;

-- Renewal and sweep touch this row only, however many jobs the claim holds.
-- The id is made by the worker: after a lost reply it can still name what it may have claimed.
create table leasehold.claim (
  id           bigint not null,
  worker_id    uuid not null,
  worker_label text not null,
  claimed_at   timestamptz not null,
  expires_at   timestamptz not null,
  swept        boolean not null default false,
  job_ids      bigint[] not null,
  constraint claim_pkey primary key (id),
  constraint claim_holds_jobs check (cardinality(job_ids) > 0)
) with (fillfactor = 70, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Random enough not to compress well, and a tenth of a claim's processor time to try.
alter table leasehold.claim alter column job_ids set storage external;

create index claim_to_sweep on leasehold.claim (expires_at);

-- Who else died with this worker.
create index claim_by_worker on leasehold.claim (worker_id);

-- A completed row is the record of its successful attempt; there is no other. Each row knows when it may be forgotten, so
-- every kind is kept as long as it asks to be, and forgetting is still dropping a table (decisions/0012).
create table leasehold.archive (
  id               bigint not null,
  forget_at        timestamptz not null default (leasehold.clock() + interval '7 days'),
  finished_at      timestamptz not null,
  available_at     timestamptz not null,
  created_at       timestamptz not null,
  lease_generation bigint not null,
  claimed_at       timestamptz,
  claimed_by       uuid,
  status           leasehold.job_status not null,
  attempts         smallint not null,
  max_attempts     smallint not null,
  priority         smallint not null,
  partition_bucket smallint not null,
  payload_version  smallint not null,
  queue            text not null,
  kind             text not null,
  payload          jsonb not null,
  partition_key    text,
  idempotency_key  text,
  metadata         jsonb,
  tags             text[],
  result           jsonb,
  constraint archive_pkey primary key (id, forget_at),
  constraint archive_holds_finished_jobs check (status in ('completed', 'cancelled')),
  constraint completed_means_it_was_claimed check (status <> 'completed' or (claimed_at is not null and lease_generation > 0))
) partition by range (forget_at);

create table leasehold.archive_default partition of leasehold.archive default;

create index archive_default_to_forget on leasehold.archive_default (forget_at);

create table leasehold.dead_letter (
  id               bigint not null,
  died_at          timestamptz not null,
  available_at     timestamptz not null,
  created_at       timestamptz not null,
  lease_generation bigint not null,
  claimed_at       timestamptz,
  claimed_by       uuid,
  attempts         smallint not null,
  max_attempts     smallint not null,
  crashes          smallint not null,
  priority         smallint not null,
  partition_bucket smallint not null,
  payload_version  smallint not null,
  blocked          boolean not null,
  queue            text not null,
  kind             text not null,
  reason           text not null,
  error            jsonb,
  payload          jsonb not null,
  partition_key    text,
  idempotency_key  text,
  metadata         jsonb,
  tags             text[],
  constraint dead_letter_pkey primary key (id),
  constraint dead_letter_reason check (
    reason in ('attempts_exhausted', 'fatal', 'invalid_input', 'effect_unknown', 'lease_expired', 'expired'))
) with (vacuum_truncate = off);

create index dead_letter_by_queue on leasehold.dead_letter (queue, died_at, id);

create index dead_letter_by_age on leasehold.dead_letter (died_at, id);

create table leasehold.job_attempt (
  job_id           bigint not null,
  lease_generation bigint not null,
  ended_at         timestamptz not null,
  started_at       timestamptz not null,
  worker_id        uuid not null,
  attempt          smallint not null,
  outcome          leasehold.attempt_outcome not null,
  error            jsonb,
  constraint job_attempt_pkey primary key (job_id, lease_generation, ended_at)
) partition by range (ended_at);

create table leasehold.job_attempt_default partition of leasehold.job_attempt default;

-- Unique per queue. Never updated: a completion held open in a caller's transaction cannot make an enqueue wait.
create table leasehold.idempotency_key (
  queue      text not null,
  key        text not null,
  job_id     bigint not null,
  keep_for   interval not null,
  input_hash bytea not null,
  constraint idempotency_key_pkey primary key (queue, key),
  constraint key_is_kept_for_a_sane_time check (keep_for between interval '0' and interval '100 years')
) with (vacuum_truncate = off);

-- Old jobs first: what prune walks.
create index idempotency_key_by_job on leasehold.idempotency_key (job_id);

-- FNV-1a, 32 bit, over the key's UTF-8 bytes, modulo 1024. The same function in TypeScript: src/core/bucket.ts.
create function leasehold.bucket(partition_key text) returns smallint
  language plpgsql immutable strict parallel safe
  set search_path = pg_catalog, pg_temp
as $$
declare
  bytes bytea := convert_to(partition_key, 'UTF8');
  hash bigint := 2166136261;
begin
  for i in 0 .. length(bytes) - 1 loop
    hash := ((hash # get_byte(bytes, i)) * 16777619) & 4294967295;
  end loop;
  return (hash % 1024)::smallint;
end
$$;

-- jsonb prints its keys in one order, so equal inputs have equal text; but it keeps trailing zeros: 1.0 is not 1 here.
create function leasehold.input_hash(payload jsonb) returns bytea
  language sql immutable strict parallel safe
  return pg_catalog.sha256(pg_catalog.convert_to(payload::text, 'UTF8'));

-- The claim: the one statement that walks a queue in order, and so the one whose plan must not depend on what the
-- planner believes. A queue that was analyzed while nearly empty and then filled by a burst looked like two rows worth
-- sorting. Hence a function: its settings leave the planner the index walk and nothing else (decisions/0006).
--
-- A spot is a (queue, priority) and the row to start from: the mark, or the beginning. The walk is lazy: rows are locked
-- one by one, in the order of the spots, until the limit is reached; no later spot is even looked at. Before a row is
-- returned its latest version is locked and tested again, so a row that was claimed, finished or moved since the snapshot
-- is passed over: no two claims return one row.
--
-- Jobs whose lease ran out before (suspects) are claimed apart: crashes between crashes_from and crashes_to.
-- They are returned in no order: sorting would make each row twice more, and the worker can tell in one look.
create function leasehold.claim(
  claim_id bigint, worker_id uuid, worker_label text, lease_ms double precision, max_jobs integer, kinds text[],
  queues text[], priorities smallint[], from_at timestamptz[], from_id bigint[],
  crashes_from smallint default 0, crashes_to smallint default 0
) returns table (
  id bigint, lease_generation bigint, attempts smallint, max_attempts smallint, queue text, kind text, payload jsonb,
  priority smallint, available_at text, created_at text, partition_key text, metadata jsonb, tags json
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set datestyle = 'ISO'
  set timezone = 'UTC'
  set enable_sort = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  picked bigint[];
begin
  if crashes_to = 0 then
    picked := array(
      select j.id
      from unnest(queues, priorities, from_at, from_id) as spot (queue, priority, from_at, from_id)
      cross join lateral (
        select job.id
        from leasehold.job
        where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes = 0
          and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= leasehold.clock()
          and job.claim_id is null and job.kind = any (kinds)
          and (job.expires_at is null or job.expires_at > leasehold.clock())
        order by job.available_at, job.id
        limit max_jobs
        for update skip locked
      ) j
      limit max_jobs
    );
  else
    picked := array(
      select j.id
      from unnest(queues, priorities, from_at, from_id) as spot (queue, priority, from_at, from_id)
      cross join lateral (
        select job.id
        from leasehold.job
        where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes > 0
          and job.crashes between crashes_from and crashes_to
          and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= leasehold.clock()
          and job.claim_id is null and job.kind = any (kinds)
          and (job.expires_at is null or job.expires_at > leasehold.clock())
        order by job.available_at, job.id
        limit max_jobs
        for update skip locked
      ) j
      limit max_jobs
    );
  end if;
  if picked = '{}' then
    return;
  end if;
  insert into leasehold.claim (id, worker_id, worker_label, claimed_at, expires_at, job_ids)
  values (claim.claim_id, claim.worker_id, claim.worker_label, leasehold.clock(),
    leasehold.clock() + lease_ms * interval '1 ms', picked);
  -- The rows are locked: nothing can have changed them since.
  return query
    update leasehold.job
    set claim_id = claim.claim_id, claimed_at = leasehold.clock(), lease_generation = job.lease_generation + 1,
      attempts = (job.attempts + 1)::smallint
    where job.id = any (picked)
    -- Times as text, to the microsecond, the same whatever the session's date style: they come back as marks.
    returning job.id, job.lease_generation, job.attempts, job.max_attempts, job.queue, job.kind, job.payload, job.priority,
      job.available_at::text, job.created_at::text, job.partition_key, job.metadata, array_to_json(job.tags);
end
$$;

-- A job is pending again, in place. One job a call: a list would have to be joined, and every join of this table has
-- been seen to go wrong under some plan (decisions/0004).
create function leasehold.hand_back(
  job_id bigint, next_at timestamptz, returns_attempt boolean, clears_crashes boolean
) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  update leasehold.job
  set claim_id = null, claimed_at = null, available_at = next_at,
    attempts = case when returns_attempt then job.attempts - 1 else job.attempts end,
    crashes = case when clears_crashes then 0 else job.crashes end
  where job.id = job_id;
  return 'pending';
end
$$;
