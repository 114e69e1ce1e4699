-- Made by `npm run schema` from a migrated database. Do not edit.

create type leasehold.attempt_outcome as enum ('failed', 'crashed', 'released');

create type leasehold.job_status as enum ('pending', 'processing', 'completed', 'dead_letter', 'cancelled');

create sequence leasehold.job_id as bigint;

create table leasehold.archive (
  id bigint not null,
  forget_at timestamp with time zone not null default (leasehold.clock() + '7 days'::interval),
  finished_at timestamp with time zone not null,
  available_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  lease_generation bigint not null,
  claimed_at timestamp with time zone,
  claimed_by uuid,
  status leasehold.job_status not null,
  attempts smallint not null,
  max_attempts smallint not null,
  priority smallint not null,
  partition_bucket smallint not null,
  payload_version smallint not null,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  tags text[],
  result jsonb,
  constraint archive_holds_finished_jobs CHECK ((status = ANY (ARRAY['completed'::leasehold.job_status, 'cancelled'::leasehold.job_status]))),
  constraint completed_means_it_was_claimed CHECK (((status <> 'completed'::leasehold.job_status) OR ((claimed_at IS NOT NULL) AND (lease_generation > 0)))),
  constraint archive_pkey PRIMARY KEY (id, forget_at)
) partition by RANGE (forget_at);

create table leasehold.busy (
  queue text not null,
  until timestamp with time zone not null,
  constraint busy_pkey PRIMARY KEY (queue)
) with (fillfactor=50, vacuum_truncate=off);

create table leasehold.claim (
  id bigint not null,
  worker_id uuid not null,
  worker_label text not null,
  claimed_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  swept boolean not null default false,
  job_ids bigint[] not null,
  constraint claim_holds_jobs CHECK ((cardinality(job_ids) > 0)),
  constraint claim_pkey PRIMARY KEY (id)
) with (fillfactor=70, vacuum_truncate=off, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_cost_delay=0);

create table leasehold.dead_letter (
  id bigint not null,
  died_at timestamp with time zone not null,
  available_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  lease_generation bigint not null,
  claimed_at timestamp with time zone,
  claimed_by uuid,
  attempts smallint not null,
  max_attempts smallint not null,
  crashes smallint not null,
  priority smallint not null,
  partition_bucket smallint not null,
  payload_version smallint not null,
  blocked boolean not null,
  queue text not null,
  kind text not null,
  reason text not null,
  error jsonb,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  tags text[],
  constraint dead_letter_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'fatal'::text, 'invalid_input'::text, 'effect_unknown'::text, 'lease_expired'::text, 'expired'::text]))),
  constraint dead_letter_pkey PRIMARY KEY (id)
) with (vacuum_truncate=off);

create table leasehold.duty (
  name text not null,
  next_at timestamp with time zone not null default '1970-01-01 00:00:00+00'::timestamp with time zone,
  constraint duty_pkey PRIMARY KEY (name)
) with (fillfactor=50, vacuum_truncate=off);

create table leasehold.effect (
  job_id bigint not null,
  lease_generation bigint not null,
  started_at timestamp with time zone not null,
  finished_at timestamp with time zone,
  run_id uuid not null default gen_random_uuid(),
  name text not null,
  result jsonb,
  constraint only_what_is_done_has_a_result CHECK (((result IS NULL) OR (finished_at IS NOT NULL))),
  constraint effect_pkey PRIMARY KEY (job_id, name)
) with (fillfactor=70, vacuum_truncate=off);

create table leasehold.idempotency_key (
  queue text not null,
  key text not null,
  job_id bigint not null,
  keep_for interval not null,
  input_hash bytea not null,
  constraint key_is_kept_for_a_sane_time CHECK (((keep_for >= '00:00:00'::interval) AND (keep_for <= '100 years'::interval))),
  constraint idempotency_key_pkey PRIMARY KEY (queue, key)
) with (vacuum_truncate=off);

create table leasehold.job (
  id bigint not null default nextval('leasehold.job_id'::regclass),
  available_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  lease_generation bigint not null default 0,
  claim_id bigint,
  claimed_at timestamp with time zone,
  attempts smallint not null default 0,
  max_attempts smallint not null default 5,
  crashes smallint not null default 0,
  priority smallint not null default 5,
  partition_bucket smallint not null,
  payload_version smallint not null default 1,
  blocked boolean not null default false,
  expires_at timestamp with time zone,
  cancel_requested_at timestamp with time zone,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  tags text[],
  progress jsonb,
  constraint attempts_within_bounds CHECK ((((attempts >= 0) AND (attempts <= max_attempts)) AND (lease_generation >= attempts))),
  constraint bucket_on_the_ring CHECK (((partition_bucket >= 0) AND (partition_bucket <= 1023))),
  constraint pending_has_an_attempt_left CHECK (((claim_id IS NOT NULL) OR (attempts < max_attempts))),
  constraint priority_is_a_digit CHECK (((priority >= 0) AND (priority <= 9))),
  constraint processing_knows_its_claim CHECK (((claim_id IS NULL) = (claimed_at IS NULL))),
  constraint job_pkey PRIMARY KEY (id)
) with (fillfactor=45, vacuum_truncate=off, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.1);

create table leasehold.job_attempt (
  job_id bigint not null,
  lease_generation bigint not null,
  ended_at timestamp with time zone not null,
  started_at timestamp with time zone not null,
  worker_id uuid not null,
  attempt smallint not null,
  outcome leasehold.attempt_outcome not null,
  error jsonb,
  constraint job_attempt_pkey PRIMARY KEY (job_id, lease_generation, ended_at)
) partition by RANGE (ended_at);

create table leasehold.migration (
  version integer not null,
  name text not null,
  serves_from integer not null,
  applied_at timestamp with time zone not null default now(),
  constraint migration_pkey PRIMARY KEY (version)
);

create table leasehold.processed_message (
  source text not null,
  message_id text not null,
  processed_at timestamp with time zone not null,
  forget_at timestamp with time zone not null,
  constraint processed_message_pkey PRIMARY KEY (source, message_id)
);

CREATE INDEX claim_by_worker ON leasehold.claim USING btree (worker_id);

CREATE INDEX claim_to_sweep ON leasehold.claim USING btree (expires_at);

CREATE INDEX dead_letter_by_age ON leasehold.dead_letter USING btree (died_at, id);

CREATE INDEX dead_letter_by_queue ON leasehold.dead_letter USING btree (queue, died_at, id);

CREATE INDEX idempotency_key_by_job ON leasehold.idempotency_key USING btree (job_id);

CREATE INDEX job_suspect ON leasehold.job USING btree (queue, priority, available_at, id) WHERE ((NOT blocked) AND (crashes > 0));

CREATE INDEX job_to_claim ON leasehold.job USING btree (queue, priority, available_at, id) WHERE ((NOT blocked) AND (crashes = 0));

CREATE INDEX job_to_expire ON leasehold.job USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX processed_message_to_forget ON leasehold.processed_message USING btree (forget_at);

CREATE OR REPLACE FUNCTION leasehold.bucket(partition_key text)
 RETURNS smallint
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  bytes bytea := convert_to(partition_key, 'UTF8');
  hash bigint := 2166136261;
begin
  for i in 0 .. length(bytes) - 1 loop
    hash := ((hash # get_byte(bytes, i)) * 16777619) & 4294967295;
  end loop;
  return (hash % 1024)::smallint;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.claim(claim_id bigint, worker_id uuid, worker_label text, lease_ms double precision, max_jobs integer, kinds text[], queues text[], priorities smallint[], from_at timestamp with time zone[], from_id bigint[], crashes_from smallint DEFAULT 0, crashes_to smallint DEFAULT 0)
 RETURNS TABLE(id bigint, lease_generation bigint, attempts smallint, max_attempts smallint, queue text, kind text, payload jsonb, priority smallint, available_at text, created_at text, partition_key text, metadata jsonb, tags json)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "DateStyle" TO 'ISO'
 SET "TimeZone" TO 'UTC'
 SET enable_sort TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
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
        from "leasehold".job
        where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes = 0
          and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= "leasehold".clock()
          and job.claim_id is null and job.kind = any (kinds)
          and (job.expires_at is null or job.expires_at > "leasehold".clock())
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
        from "leasehold".job
        where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes > 0
          and job.crashes between crashes_from and crashes_to
          and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= "leasehold".clock()
          and job.claim_id is null and job.kind = any (kinds)
          and (job.expires_at is null or job.expires_at > "leasehold".clock())
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
  insert into "leasehold".claim (id, worker_id, worker_label, claimed_at, expires_at, job_ids)
  values (claim.claim_id, claim.worker_id, claim.worker_label, "leasehold".clock(),
    "leasehold".clock() + lease_ms * interval '1 ms', picked);
  -- The rows are locked: nothing can have changed them since.
  return query
    update "leasehold".job
    set claim_id = claim.claim_id, claimed_at = "leasehold".clock(), lease_generation = job.lease_generation + 1,
      attempts = (job.attempts + 1)::smallint
    where job.id = any (picked)
    -- Times as text, to the microsecond, the same whatever the session's date style: they come back as marks.
    returning job.id, job.lease_generation, job.attempts, job.max_attempts, job.queue, job.kind, job.payload, job.priority,
      job.available_at::text, job.created_at::text, job.partition_key, job.metadata, array_to_json(job.tags);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN statement_timestamp()
;

CREATE OR REPLACE FUNCTION leasehold.drop_partitions(keep_attempts interval)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "DateStyle" TO 'ISO'
 SET "TimeZone" TO 'UTC'
 SET lock_timeout TO '50ms'
AS $function$
declare
  parent text;
  partition text;
  needed boolean;
  dropped integer := 0;
begin
  foreach parent in array array['archive', 'job_attempt'] loop
    for partition in
      select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = format('"leasehold".%I', parent)::regclass and c.relname ~ '_\d{8}$'
        and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= "leasehold".clock() - case parent when 'archive' then interval '0' else keep_attempts end
      order by c.relname
    loop
      if parent = 'archive' then
        execute format('select exists (
          select from "leasehold".%I a join "leasehold".idempotency_key k on k.queue = a.queue and k.key = a.idempotency_key
          where a.idempotency_key is not null and k.job_id = a.id and a.finished_at > "leasehold".clock() - k.keep_for)', partition)
        into needed;
        continue when needed;
      end if;
      begin
        execute format('drop table "leasehold".%I', partition);
        dropped := dropped + 1;
      exception
        when lock_not_available or deadlock_detected or undefined_table then null;
      end;
      exit;
    end loop;
  end loop;
  return dropped;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.enqueue(kind text, payload jsonb, options jsonb DEFAULT '{}'::jsonb, OUT job_id bigint, OUT outcome text)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  known constant text[] := array['queue', 'priority', 'available_at', 'delay', 'max_attempts', 'partition_key',
    'idempotency_key', 'keep_key_for', 'payload_version', 'expires_at', 'metadata', 'tags'];
  unknown text;
  to_queue constant text := coalesce(options ->> 'queue', kind);
  with_key constant text := options ->> 'idempotency_key';
  hash bytea;
  same boolean;
begin
  select name into unknown from jsonb_object_keys(options) name where name <> all (known) limit 1;
  if unknown is not null then
    raise exception 'unknown option "%"', unknown using
      errcode = 'invalid_parameter_value', hint = 'Known options: ' || array_to_string(known, ', ');
  end if;
  if enqueue.payload is null or enqueue.kind is null then
    raise exception 'kind and payload must not be null' using errcode = 'null_value_not_allowed';
  end if;
  if octet_length(enqueue.kind) not between 1 and 200 or octet_length(to_queue) not between 1 and 200
    or octet_length(with_key) not between 1 and 1000 or octet_length(options ->> 'partition_key') not between 1 and 1000 then
    raise exception 'kind and queue hold 1 to 200 bytes, idempotency_key and partition_key 1 to 1000' using
      errcode = 'invalid_parameter_value';
  end if;
  if octet_length(enqueue.payload::text) > 1048576 then
    raise exception 'payload is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store the data elsewhere and enqueue its address.';
  end if;

  job_id := nextval('"leasehold".job_id');
  if with_key is not null then
    hash := "leasehold".input_hash(enqueue.payload);
    loop
      -- Waits for a transaction that is inserting the same key. DO NOTHING locks no existing row.
      insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash)
      values (to_queue, with_key, enqueue.job_id, coalesce((options ->> 'keep_key_for')::interval, interval '24 hours'), hash)
      on conflict do nothing;
      exit when found;
      -- A new statement, hence a new snapshot: it sees the row that was waited for.
      select k.job_id, k.input_hash = hash into job_id, same
      from "leasehold".idempotency_key k where k.queue = to_queue and k.key = with_key;
      if found then
        outcome := case when same then 'existing' else 'conflict' end;
        return;
      end if;
      job_id := nextval('"leasehold".job_id'); -- pruned between the two statements: try again
    end loop;
  end if;

  insert into "leasehold".job (id, available_at, created_at, max_attempts, priority, partition_bucket, payload_version,
    expires_at, queue, kind, payload, partition_key, idempotency_key, metadata, tags)
  values (
    enqueue.job_id,
    coalesce((options ->> 'available_at')::timestamptz,
      "leasehold".clock() + coalesce((options ->> 'delay')::interval, interval '0')),
    "leasehold".clock(),
    coalesce((options ->> 'max_attempts')::smallint, 5),
    coalesce((options ->> 'priority')::smallint, 5),
    coalesce("leasehold".bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint),
    coalesce((options ->> 'payload_version')::smallint, 1),
    (options ->> 'expires_at')::timestamptz,
    to_queue, enqueue.kind, enqueue.payload, options ->> 'partition_key', with_key,
    options -> 'metadata',
    case when options ? 'tags' then array(select jsonb_array_elements_text(options -> 'tags')) end
  );
  outcome := 'created';
  if not options ?| array['available_at', 'delay'] then
    perform "leasehold".wake(array[to_queue]);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.hand_back(job_id bigint, next_at timestamp with time zone, returns_attempt boolean, clears_crashes boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update "leasehold".job
  set claim_id = null, claimed_at = null, available_at = next_at,
    attempts = case when returns_attempt then job.attempts - 1 else job.attempts end,
    crashes = case when clears_crashes then 0 else job.crashes end
  where job.id = job_id;
  return 'pending';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.input_hash(payload jsonb)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN sha256(convert_to((payload)::text, 'UTF8'::name))
;

CREATE OR REPLACE FUNCTION leasehold.listen()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  topic text;
begin
  foreach topic in array array['wake', 'cancel'] loop
    execute format('listen %I', replace('"leasehold".', '"', '') || topic);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.make_partitions(days_ahead integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "DateStyle" TO 'ISO'
 SET "TimeZone" TO 'UTC'
 SET lock_timeout TO '50ms'
AS $function$
declare
  parent text;
  day date;
  partition text;
  made integer := 0;
begin
  foreach parent in array array['archive', 'job_attempt'] loop
    for day in select d::date from generate_series(
      ("leasehold".clock() at time zone 'UTC')::date,
      ("leasehold".clock() at time zone 'UTC')::date + case parent when 'archive' then days_ahead else least(days_ahead, 7) end,
      interval '1 day') d
    loop
      partition := parent || '_' || to_char(day, 'YYYYMMDD');
      continue when to_regclass(format('"leasehold".%I', partition)) is not null;
      begin
        -- Attached rather than created in place: the parent's inserts go on meanwhile, but for those into the default
        -- partition, which is looked through for rows of that day.
        execute format('create table "leasehold".%I (like "leasehold".%I including defaults including constraints)', partition, parent);
        execute format('alter table "leasehold".%I attach partition "leasehold".%I for values from (%L) to (%L)',
          parent, partition, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
        made := made + 1;
      exception
        -- Somebody else is making it; a reader holds the lock; or the default partition already holds rows of that day.
        when duplicate_table or duplicate_object or unique_violation or invalid_object_definition or lock_not_available
          or deadlock_detected or check_violation then null;
      end;
    end loop;
  end loop;
  return made;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.reserve_pages()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  wide constant text := repeat('x', 1800);
begin
  -- Inserted and deleted in one transaction: nobody ever sees these rows. Each fills a good part of a page.
  if pg_relation_size('"leasehold".job') < 256 * 8192 then
    insert into "leasehold".job (id, available_at, created_at, partition_bucket, queue, kind, payload, blocked)
    select -n, 'infinity', 'infinity', 0, '', '', to_jsonb(wide), true from generate_series(1, 256) n;
    delete from "leasehold".job where id < 0;
  end if;
  if pg_relation_size('"leasehold".claim') < 256 * 8192 then
    insert into "leasehold".claim (id, worker_id, worker_label, claimed_at, expires_at, job_ids)
    select -n, '00000000-0000-0000-0000-000000000000', wide, '-infinity', 'infinity', '{0}' from generate_series(1, 768) n;
    delete from "leasehold".claim where id < 0;
  end if;
  if pg_relation_size('"leasehold".dead_letter') < 256 * 8192 then
    insert into "leasehold".dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts,
      crashes, priority, partition_bucket, payload_version, blocked, queue, kind, reason, payload)
    select -n, 'infinity', 'infinity', 'infinity', 0, 0, 1, 0, 0, 0, 0, true, '', '', 'fatal', to_jsonb(wide)
    from generate_series(1, 1024) n;
    delete from "leasehold".dead_letter where id < 0;
  end if;
  if pg_relation_size('"leasehold".idempotency_key') < 256 * 8192 then
    insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash)
    select '', n::text, -n, '0', convert_to(wide, 'UTF8') from generate_series(1, 1024) n;
    delete from "leasehold".idempotency_key where job_id < 0;
  end if;
  -- Made by a later migration; this runs after all of them.
  if pg_relation_size('"leasehold".effect') < 256 * 8192 then
    insert into "leasehold".effect (job_id, lease_generation, started_at, finished_at, name, result)
    select -n, 0, 'epoch', 'epoch', '', to_jsonb(wide) from generate_series(1, 1024) n;
    delete from "leasehold".effect where job_id < 0;
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.tell(topic text, message text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  perform pg_notify(replace('"leasehold".', '"', '') || topic, message);
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.wake(queues text[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  name text;
begin
  foreach name in array queues loop
    if (select b.until > "leasehold".clock() from "leasehold".busy b where b.queue = name) is not true then
      perform "leasehold".tell('wake', name);
    end if;
  end loop;
  return true;
end
$function$
;

create view leasehold.jobs as
 SELECT j.id,
    j.queue,
    j.kind,
    j.payload,
    j.payload_version,
    j.partition_key,
    j.partition_bucket,
    j.idempotency_key,
        CASE
            WHEN j.claim_id IS NULL THEN 'pending'::text
            ELSE 'processing'::text
        END::leasehold.job_status AS status,
        CASE
            WHEN j.claim_id IS NOT NULL THEN NULL::text
            WHEN j.blocked THEN 'blocked'::text
            WHEN j.available_at <= leasehold.clock() THEN 'ready'::text
            WHEN j.attempts > 0 THEN 'retrying'::text
            ELSE 'scheduled'::text
        END AS label,
    j.priority,
    j.available_at,
    j.attempts,
    j.max_attempts,
    j.crashes,
    c.worker_id AS claimed_by,
    c.worker_label AS claimed_by_label,
    j.claimed_at,
    c.expires_at AS lease_expires_at,
    j.lease_generation,
    j.cancel_requested_at,
    j.expires_at,
    j.progress,
    ( SELECT a.error
           FROM leasehold.job_attempt a
          WHERE a.job_id = j.id
          ORDER BY a.lease_generation DESC, a.ended_at DESC
         LIMIT 1) AS last_error,
    NULL::text AS reason,
    NULL::jsonb AS result,
    j.metadata,
    j.tags,
    j.created_at,
    NULL::timestamp with time zone AS completed_at
   FROM leasehold.job j
     LEFT JOIN leasehold.claim c ON c.id = j.claim_id
UNION ALL
 SELECT d.id,
    d.queue,
    d.kind,
    d.payload,
    d.payload_version,
    d.partition_key,
    d.partition_bucket,
    d.idempotency_key,
    'dead_letter'::leasehold.job_status AS status,
    NULL::text AS label,
    d.priority,
    d.available_at,
    d.attempts,
    d.max_attempts,
    d.crashes,
    d.claimed_by,
    NULL::text AS claimed_by_label,
    d.claimed_at,
    NULL::timestamp with time zone AS lease_expires_at,
    d.lease_generation,
    NULL::timestamp with time zone AS cancel_requested_at,
    NULL::timestamp with time zone AS expires_at,
    NULL::jsonb AS progress,
    d.error AS last_error,
    d.reason,
    NULL::jsonb AS result,
    d.metadata,
    d.tags,
    d.created_at,
    d.died_at AS completed_at
   FROM leasehold.dead_letter d
UNION ALL
 SELECT a.id,
    a.queue,
    a.kind,
    a.payload,
    a.payload_version,
    a.partition_key,
    a.partition_bucket,
    a.idempotency_key,
    a.status,
    NULL::text AS label,
    a.priority,
    a.available_at,
    a.attempts,
    a.max_attempts,
    NULL::smallint AS crashes,
    a.claimed_by,
    NULL::text AS claimed_by_label,
    a.claimed_at,
    NULL::timestamp with time zone AS lease_expires_at,
    a.lease_generation,
    NULL::timestamp with time zone AS cancel_requested_at,
    NULL::timestamp with time zone AS expires_at,
    NULL::jsonb AS progress,
    NULL::jsonb AS last_error,
    NULL::text AS reason,
    a.result,
    a.metadata,
    a.tags,
    a.created_at,
    a.finished_at AS completed_at
   FROM leasehold.archive a;
