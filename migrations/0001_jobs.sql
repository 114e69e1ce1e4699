-- serves code from: 1
--
-- The storage of jobs. One rule shapes it: no index, and no index predicate, mentions a column that a claim changes, so
-- every claim is a heap-only update (decisions/0001). What follows from it:
--   job              unfinished jobs; a finished row leaves, as leasehold.finish() does it (decisions/0024)
--   claim            one row per claim call: worker, lease, jobs; the lease belongs to the claim
--   archive          completed and cancelled jobs, one partition per day of expiry
--   dead_letter      jobs that need a person
--   job_attempt      attempts that did not succeed, one partition per day
--   idempotency_key  written with the job, deleted some time after the job has finished

-- The only clock that decides. SQL and stable without a SET clause, so that it is inlined and indexes apply.
-- statement_timestamp() rather than now(): inside a caller's long transaction now() stands still.
create function leasehold.clock() returns timestamptz
  language sql stable parallel safe
  return pg_catalog.statement_timestamp();

create type leasehold.job_status as enum ('pending', 'processing', 'completed', 'dead_letter', 'cancelled');

create type leasehold.attempt_outcome as enum ('failed', 'crashed', 'released', 'snoozed', 'cancelled');

create sequence leasehold.job_id as bigint;

-- A row is processing exactly while claim_id is set: one fact, stored once, so status and owner cannot disagree.
-- claim_id is the fence of every write about a claimed job. Worker processes draw it at random, so no claim ever gets the
-- id of another, also after a failover that lost the last claims (decisions/0002). lease_generation is for stores outside:
-- 0 until the first claim, then at least the claim's time in milliseconds, and always higher than before.
-- salt distinguishes two jobs that got the same id from a sequence that a failover set back.
-- key_seq is the job's place among those of its partition key, in an ordered queue; null in any other (0010_order.sql).
-- blocked: a job of the same key comes first.
-- line: 0, and any worker may claim the job; in a queue on the ring, 1 + the bucket of its key (0014_ring.sql).
-- parent_id: the run of a workflow that started this job; it is notified when the job ends. waiting_for: the signals that a run waits
-- for, if this job carries one; empty if it is paused (0012_workflows.sql). Both are null for most jobs.
-- The columns a claim changes lie side by side, so that its WAL record holds little else.
-- What is always true of a row is checked in the test databases, and not here: Postgres parses each check anew in each statement,
-- which took a tenth of a claim of one job (decisions/0033).
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
  line                smallint not null default 0,
  salt                integer not null default (floor(random() * 4294967296) - 2147483648)::integer,
  blocked             boolean not null default false,
  expires_at          timestamptz,
  cancel_requested_at timestamptz,
  key_seq             bigint,
  parent_id           bigint,
  cancel_reason       text,
  queue               text not null,
  kind                text not null,
  payload             jsonb not null,
  partition_key       text,
  idempotency_key     text,
  metadata            jsonb,
  progress            jsonb,
  waiting_for         text[],
  constraint job_pkey primary key (id)
) with (
  fillfactor = 45,
  vacuum_truncate = off,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.1
);

-- The index that a worker walks. A job whose lease once expired may have killed its worker: it moves to the next index.
create index job_to_claim on leasehold.job (queue, line, priority, available_at, id) where not blocked and crashes = 0;

-- Suspects are claimed apart, in smaller and smaller company (decisions/0007).
create index job_suspect on leasehold.job (queue, priority, available_at, id) where not blocked and crashes > 0;

create index job_to_expire on leasehold.job (expires_at) where expires_at is not null;

-- Renewal and sweep touch this row only, however many jobs the claim holds.
-- The worker draws the id: after a lost reply it can still name the claim.
create table leasehold.claim (
  id         bigint not null,
  worker_id  uuid not null,
  claimed_at timestamptz not null,
  expires_at timestamptz not null,
  swept      boolean not null default false,
  job_ids    bigint[] not null,
  constraint claim_pkey primary key (id)
) with (fillfactor = 70, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Ids hardly compress, and trying took a tenth of a claim's processor time. Citus refuses the setting and works without.
do $$
begin
  alter table leasehold.claim alter column job_ids set storage external;
exception when feature_not_supported then null;
end
$$;

create index claim_to_sweep on leasehold.claim (expires_at);

-- Which other jobs a dead worker held.
create index claim_by_worker on leasehold.claim (worker_id);

-- A completed row is the record of its successful attempt; there is no other. Each row stores when it may be deleted, so
-- every kind has its own retention, and deletion is still dropping a table (decisions/0012).
create table leasehold.archive (
  id               bigint not null,
  forget_at        timestamptz not null default (leasehold.clock() + interval '7 days'),
  finished_at      timestamptz not null,
  available_at     timestamptz not null,
  created_at       timestamptz not null,
  lease_generation bigint not null,
  claim_id         bigint,
  claimed_at       timestamptz,
  claimed_by       uuid,
  status           leasehold.job_status not null,
  attempts         smallint not null,
  max_attempts     smallint not null,
  priority         smallint not null,
  partition_bucket smallint not null,
  queue            text not null,
  kind             text not null,
  payload          jsonb not null,
  partition_key    text,
  idempotency_key  text,
  metadata         jsonb,
  result           jsonb,
  cancel_reason    text,
  constraint archive_pkey primary key (id, forget_at)
) partition by range (forget_at);

create table leasehold.archive_default partition of leasehold.archive default;

create index archive_default_to_forget on leasehold.archive_default (forget_at);

-- cancel_requested_at: a run of a workflow was to be cancelled, and could not undo what it did. Redriven, it still is to be cancelled.
create table leasehold.dead_letter (
  id                  bigint not null,
  died_at             timestamptz not null,
  available_at        timestamptz not null,
  created_at          timestamptz not null,
  lease_generation    bigint not null,
  claim_id            bigint,
  claimed_at          timestamptz,
  cancel_requested_at timestamptz,
  claimed_by          uuid,
  attempts            smallint not null,
  max_attempts        smallint not null,
  crashes             smallint not null,
  priority            smallint not null,
  partition_bucket    smallint not null,
  salt                integer not null,
  blocks_key          boolean not null default false,
  key_seq             bigint,
  parent_id           bigint,
  queue               text not null,
  kind                text not null,
  reason              text not null,
  error               jsonb,
  payload             jsonb not null,
  partition_key       text,
  idempotency_key     text,
  metadata            jsonb,
  cancel_reason       text,
  constraint dead_letter_pkey primary key (id),
  constraint dead_letter_reason check (
    reason in ('attempts_exhausted', 'fatal', 'invalid_input', 'effect_unknown', 'lease_expired', 'expired', 'parked'))
) with (vacuum_truncate = off);

create index dead_letter_by_queue on leasehold.dead_letter (queue, died_at, id);

create index dead_letter_by_age on leasehold.dead_letter (died_at, id);

create table leasehold.job_attempt (
  job_id           bigint not null,
  claim_id         bigint not null,
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

-- Unique per queue. No outcome touches it: a completion held open in a caller's transaction cannot make an enqueue wait.
-- due_at is when prune looks at the key next, at the earliest moment at which it may be free: the job takes its time, and
-- the key is kept for a while after that. So prune walks no key that must stay (decisions/0008).
create table leasehold.idempotency_key (
  queue      text not null,
  key        text not null,
  job_id     bigint not null,
  keep_for   interval not null,
  input_hash bytea not null,
  due_at     timestamptz not null,
  constraint idempotency_key_pkey primary key (queue, key),
  constraint key_is_kept_for_a_sane_time check (keep_for between interval '0' and interval '100 years')
) with (vacuum_truncate = off);

-- The index that prune walks.
create index idempotency_key_due on leasehold.idempotency_key (due_at);

-- The lookup of raise_job_id() and prune.
create index idempotency_key_by_job on leasehold.idempotency_key (job_id);

-- When prune looks at a new key. Most jobs finish soon: with a little to spare, most keys are looked at once.
create function leasehold.key_due_at(keep_for interval) returns timestamptz
  language sql stable parallel safe
  return leasehold.clock() + least(keep_for, interval '100 years') + least(keep_for / 16, interval '30 minutes');

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
