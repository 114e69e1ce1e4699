-- Made by `npm run schema` from a migrated database. Do not edit.

create type leasehold.attempt_outcome as enum ('failed', 'crashed', 'released', 'snoozed', 'cancelled');

create type leasehold.job_status as enum ('pending', 'processing', 'completed', 'dead_letter', 'cancelled');

create sequence leasehold.job_id as bigint;

create sequence leasehold.operator_action_id as bigint;

create table leasehold.archive (
  id bigint not null,
  forget_at timestamp with time zone not null default (leasehold.clock() + '7 days'::interval),
  finished_at timestamp with time zone not null,
  available_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  lease_generation bigint not null,
  claim_id bigint,
  claimed_at timestamp with time zone,
  claimed_by uuid,
  status leasehold.job_status not null,
  attempts smallint not null,
  max_attempts smallint not null,
  priority smallint not null,
  partition_bucket smallint not null,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  result jsonb,
  cancel_reason text,
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
  claimed_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  swept boolean not null default false,
  job_ids bigint[] not null,
  constraint claim_pkey PRIMARY KEY (id)
) with (fillfactor=70, vacuum_truncate=off, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_cost_delay=0);

create table leasehold.dead_letter (
  id bigint not null,
  died_at timestamp with time zone not null,
  available_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  lease_generation bigint not null,
  claim_id bigint,
  claimed_at timestamp with time zone,
  claimed_by uuid,
  attempts smallint not null,
  max_attempts smallint not null,
  crashes smallint not null,
  priority smallint not null,
  partition_bucket smallint not null,
  salt integer not null,
  blocked boolean not null,
  queue text not null,
  kind text not null,
  reason text not null,
  error jsonb,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
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
  salt integer not null,
  started_at timestamp with time zone not null,
  finished_at timestamp with time zone,
  run_id uuid not null default gen_random_uuid(),
  name text not null,
  result jsonb,
  constraint only_what_is_done_has_a_result CHECK (((result IS NULL) OR (finished_at IS NOT NULL))),
  constraint effect_pkey PRIMARY KEY (job_id, name, salt)
) with (fillfactor=70, vacuum_truncate=off);

create table leasehold.idempotency_key (
  queue text not null,
  key text not null,
  job_id bigint not null,
  keep_for interval not null,
  input_hash bytea not null,
  due_at timestamp with time zone not null,
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
  salt integer not null default ((floor((random() * ('4294967296'::bigint)::double precision)) - ('2147483648'::bigint)::double precision))::integer,
  blocked boolean not null default false,
  expires_at timestamp with time zone,
  cancel_requested_at timestamp with time zone,
  cancel_reason text,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  progress jsonb,
  constraint job_pkey PRIMARY KEY (id)
) with (fillfactor=45, vacuum_truncate=off, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.1);

create table leasehold.job_attempt (
  job_id bigint not null,
  claim_id bigint not null,
  lease_generation bigint not null,
  ended_at timestamp with time zone not null,
  started_at timestamp with time zone not null,
  worker_id uuid not null,
  attempt smallint not null,
  outcome leasehold.attempt_outcome not null,
  error jsonb,
  constraint job_attempt_pkey PRIMARY KEY (job_id, lease_generation, ended_at)
) partition by RANGE (ended_at);

create table leasehold.kind (
  name text not null,
  queue text,
  priority smallint,
  max_attempts smallint,
  keep interval,
  keep_key interval,
  paused_at timestamp with time zone,
  paused_by text,
  constraint kind_has_an_attempt CHECK ((max_attempts > 0)),
  constraint kind_priority_is_a_digit CHECK (((priority >= 0) AND (priority <= 9))),
  constraint only_a_paused_kind_was_paused_by CHECK (((paused_by IS NULL) OR (paused_at IS NOT NULL))),
  constraint kind_pkey PRIMARY KEY (name)
);

create table leasehold.migration (
  version integer not null,
  name text not null,
  serves_from integer not null,
  applied_at timestamp with time zone not null default now(),
  constraint migration_pkey PRIMARY KEY (version)
);

create table leasehold.operator_action (
  id bigint not null default nextval('leasehold.operator_action_id'::regclass),
  at timestamp with time zone not null,
  action text not null,
  by text,
  outcome text not null,
  job_id bigint,
  queue text,
  kind text,
  detail text,
  constraint action_is_known CHECK ((action = ANY (ARRAY['cancel'::text, 'redrive'::text, 'pause'::text, 'resume'::text, 'settle_effect'::text]))),
  constraint operator_action_pkey PRIMARY KEY (id)
);

create table leasehold.processed_message (
  source text not null,
  message_id text not null,
  processed_at timestamp with time zone not null,
  forget_at timestamp with time zone not null,
  constraint processed_message_pkey PRIMARY KEY (source, message_id)
);

create table leasehold.queue (
  name text not null,
  paused_at timestamp with time zone,
  paused_by text,
  ordered boolean not null default false,
  on_dead_letter text not null default 'block'::text,
  wakes boolean not null default true,
  constraint on_dead_letter_is_known CHECK ((on_dead_letter = ANY (ARRAY['block'::text, 'skip'::text, 'park'::text]))),
  constraint only_a_paused_queue_was_paused_by CHECK (((paused_by IS NULL) OR (paused_at IS NOT NULL))),
  constraint queue_pkey PRIMARY KEY (name)
);

create table leasehold.settings (
  id integer not null default 1,
  keep_dead_letters interval not null default '30 days'::interval,
  keep_attempts interval not null default '7 days'::interval,
  keep_effects interval not null default '72:00:00'::interval,
  keep_workers interval not null default '90 days'::interval,
  constraint settings_are_one_row CHECK ((id = 1)),
  constraint settings_pkey PRIMARY KEY (id)
);

create table leasehold.sweep (
  only_row boolean not null default true,
  server_started timestamp with time zone,
  looked_at timestamp with time zone,
  swept_until timestamp with time zone,
  hold_until timestamp with time zone,
  constraint sweep_is_one_row CHECK (only_row),
  constraint sweep_pkey PRIMARY KEY (only_row)
) with (fillfactor=50, vacuum_truncate=off);

create table leasehold.worker (
  id uuid not null,
  label text not null,
  version text not null,
  kinds text[] not null,
  queues text[] not null,
  started_at timestamp with time zone not null,
  last_seen_at timestamp with time zone not null,
  stopped_at timestamp with time zone,
  constraint worker_pkey PRIMARY KEY (id)
) with (fillfactor=50);

CREATE INDEX claim_by_worker ON leasehold.claim USING btree (worker_id);

CREATE INDEX claim_to_sweep ON leasehold.claim USING btree (expires_at);

CREATE INDEX dead_letter_by_age ON leasehold.dead_letter USING btree (died_at, id);

CREATE INDEX dead_letter_by_queue ON leasehold.dead_letter USING btree (queue, died_at, id);

CREATE INDEX idempotency_key_by_job ON leasehold.idempotency_key USING btree (job_id);

CREATE INDEX idempotency_key_due ON leasehold.idempotency_key USING btree (due_at);

CREATE INDEX job_suspect ON leasehold.job USING btree (queue, priority, available_at, id) WHERE ((NOT blocked) AND (crashes > 0));

CREATE INDEX job_to_claim ON leasehold.job USING btree (queue, priority, available_at, id) WHERE ((NOT blocked) AND (crashes = 0));

CREATE INDEX job_to_expire ON leasehold.job USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX kind_paused ON leasehold.kind USING btree (name) WHERE (paused_at IS NOT NULL);

CREATE INDEX operator_action_by_age ON leasehold.operator_action USING btree (at);

CREATE INDEX operator_action_by_job ON leasehold.operator_action USING btree (job_id) WHERE (job_id IS NOT NULL);

CREATE INDEX processed_message_to_forget ON leasehold.processed_message USING btree (forget_at);

CREATE INDEX queue_paused ON leasehold.queue USING btree (name) WHERE (paused_at IS NOT NULL);

CREATE INDEX worker_running ON leasehold.worker USING btree (id) WHERE (stopped_at IS NULL);

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

CREATE OR REPLACE FUNCTION leasehold.claim(claim_id bigint, worker_id uuid, lease_ms double precision, max_jobs integer, kinds text[], queues text[], priorities smallint[] DEFAULT NULL::smallint[], from_at timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], from_id bigint[] DEFAULT NULL::bigint[], crashes_from smallint DEFAULT 0, crashes_to smallint DEFAULT 0, buckets bytea DEFAULT NULL::bytea, share integer DEFAULT NULL::integer, older_ms double precision DEFAULT NULL::double precision, younger_ms double precision DEFAULT NULL::double precision)
 RETURNS TABLE(id bigint, lease_generation bigint, attempts smallint, max_attempts smallint, queue text, kind text, payload jsonb, priority smallint, available_at text, created_at text, partition_key text, partition_bucket smallint, salt integer, metadata jsonb)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_sort TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  at constant timestamptz := "leasehold".clock();
  generation_floor constant bigint := "leasehold".generation_floor();
  began constant timestamptz := clock_timestamp();
  until constant timestamptz := at - coalesce(older_ms, 0) * interval '1 ms';
  at_most constant integer := least(share, max_jobs);
  picked bigint[];
  size_at_most bigint;
  rendered bigint := 0;
  used_queues text[];
  used_priorities smallint[];
  used_turns bigint[];
  next_queues text[];
  next_priorities smallint[];
  next_turns bigint[];
  leaves_out_paused boolean := false;
begin
  if octet_length(buckets) <> 128 then
    raise exception 'buckets must hold 1024 bits' using errcode = 'invalid_parameter_value';
  end if;
  if priorities is null and older_ms is null and younger_ms is null then
    select array_agg(l.queue), array_agg(l.priority), array_agg(l.turn)
    into used_queues, used_priorities, used_turns
    from unnest(queues) with ordinality as spot (queue, turn)
    cross join lateral (
      select spot.queue, spot.turn, job.priority
      from "leasehold".job
      where job.queue = spot.queue and not job.blocked and job.crashes = 0
      order by job.queue desc, job.priority desc, job.available_at desc, job.id desc
      limit 1
    ) l;
    next_queues := used_queues;
    next_priorities := used_priorities;
    next_turns := used_turns;
    while next_queues is not null loop
      select array_agg(l.queue), array_agg(l.priority), array_agg(l.turn)
      into next_queues, next_priorities, next_turns
      from unnest(next_queues, next_priorities, next_turns) as spot (queue, priority, turn)
      cross join lateral (
        select spot.queue, spot.turn, job.priority
        from "leasehold".job
        where job.queue = spot.queue and job.priority < spot.priority and not job.blocked and job.crashes = 0
        order by job.queue desc, job.priority desc, job.available_at desc, job.id desc
        limit 1
      ) l;
      used_queues := used_queues || next_queues;
      used_priorities := used_priorities || next_priorities;
      used_turns := used_turns || next_turns;
    end loop;
    select array_agg(spot.queue order by spot.priority, spot.turn), array_agg(spot.priority order by spot.priority, spot.turn)
    into queues, priorities
    from unnest(used_queues, used_priorities, used_turns) as spot (queue, priority, turn);
  elsif priorities is null then
    select array_agg(spot.queue order by level.priority, spot.turn),
      array_agg(level.priority::smallint order by level.priority, spot.turn)
    into queues, priorities
    from unnest(queues) with ordinality as spot (queue, turn) cross join generate_series(0, 9) as level (priority);
  end if;
  if from_at is null and queues is not null then
    from_at := array_fill(coalesce(at - younger_ms * interval '1 ms', '-infinity'), array[cardinality(queues)]);
    from_id := array_fill(0::bigint, array[cardinality(queues)]);
  end if;
  -- First as if nothing were paused, which the walk itself makes sure of: asked beforehand, it took a tenth of a claim of
  -- one job. If there is a pause, what is paused is left out of the arguments, and the walk is done again.
  loop
    -- The walk is written twice: a partial index is used only where its predicate is written out.
    if crashes_to = 0 then
      select array_agg(j.id), sum(j.size) into picked, size_at_most
      from (
        select j.id, j.size
        from unnest(queues, priorities, from_at, from_id) as spot (queue, priority, from_at, from_id)
        cross join lateral (
          select job.id, case
              when pg_column_size(job.payload) < 1500 or pg_column_compression(job.payload) is null
              then pg_column_size(job.payload) else 100 * pg_column_size(job.payload)
            end as size
          from "leasehold".job
          where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes = 0
            and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= until
            and job.claim_id is null and job.kind = any (kinds)
            and (job.expires_at is null or job.expires_at > at)
            and (buckets is null or get_bit(buckets, job.partition_bucket) = 1)
          order by job.available_at, job.id
          limit at_most
          for update skip locked
        ) j
        where leaves_out_paused or not (
          exists (select from "leasehold".queue paused where paused.paused_at is not null)
          or exists (select from "leasehold".kind paused where paused.paused_at is not null))
        limit max_jobs
      ) j;
    else
      select array_agg(j.id), sum(j.size) into picked, size_at_most
      from (
        select j.id, j.size
        from unnest(queues, priorities, from_at, from_id) as spot (queue, priority, from_at, from_id)
        cross join lateral (
          select job.id, case
              when pg_column_size(job.payload) < 1500 or pg_column_compression(job.payload) is null
              then pg_column_size(job.payload) else 100 * pg_column_size(job.payload)
            end as size
          from "leasehold".job
          where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes > 0
            and job.crashes between crashes_from and crashes_to
            and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= until
            and job.claim_id is null and job.kind = any (kinds)
            and (job.expires_at is null or job.expires_at > at)
            and (buckets is null or get_bit(buckets, job.partition_bucket) = 1)
          order by job.available_at, job.id
          limit at_most
          for update skip locked
        ) j
        where leaves_out_paused or not (
          exists (select from "leasehold".queue paused where paused.paused_at is not null)
          or exists (select from "leasehold".kind paused where paused.paused_at is not null))
        limit max_jobs
      ) j;
    end if;
    exit when picked is not null or leaves_out_paused or not (
      exists (select from "leasehold".queue paused where paused.paused_at is not null)
      or exists (select from "leasehold".kind paused where paused.paused_at is not null));
    leaves_out_paused := true;
    kinds := array(
      select asked.name from unnest(kinds) as asked (name)
      where asked.name not in (select paused.name from "leasehold".kind paused where paused.paused_at is not null));
    -- Without a kind the walk would step over the whole backlog, and find nothing.
    if kinds = '{}' then
      return;
    end if;
    select array_agg(asked.queue), array_agg(asked.priority), array_agg(asked.from_at), array_agg(asked.from_id)
    into queues, priorities, from_at, from_id
    from unnest(queues, priorities, from_at, from_id) as asked (queue, priority, from_at, from_id)
    where asked.queue not in (select paused.name from "leasehold".queue paused where paused.paused_at is not null);
  end loop;
  lease_generation := extract(epoch from clock_timestamp() - began) * 1000000;
  attempts := coalesce(cardinality(picked), 0);
  available_at := encode(timestamptz_send(at), 'hex');
  return next;
  if picked is null then
    return;
  end if;
  if size_at_most > 16777216 then
    for place in 1 .. cardinality(picked) loop
      rendered := rendered + (select octet_length(job.payload::text) from "leasehold".job where job.id = picked[place]);
      if rendered > 16777216 and place > 1 then
        picked := picked[1:place - 1];
        exit;
      end if;
    end loop;
  end if;
  insert into "leasehold".claim (id, worker_id, claimed_at, expires_at, job_ids)
  values (claim.claim_id, claim.worker_id, at, at + lease_ms * interval '1 ms', picked);
  -- The rows are locked: nothing can have changed them since. Times as the server stores them, in hexadecimal: to the
  -- microsecond, the same in every session, and immutable, as a distributed Postgres wants it. Printed as dates, in a CTE,
  -- they took a tenth of the claim's time.
  return query
    update "leasehold".job
    set claim_id = claim.claim_id, claimed_at = at, attempts = (job.attempts + 1)::smallint,
      lease_generation = greatest(job.lease_generation + 1, generation_floor)
    where job.id = any (picked)
    returning job.id, job.lease_generation, job.attempts, job.max_attempts, job.queue, job.kind, job.payload,
      job.priority, encode(timestamptz_send(job.available_at), 'hex'), encode(timestamptz_send(job.created_at), 'hex'),
      job.partition_key, job.partition_bucket, job.salt, job.metadata;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN statement_timestamp()
;

CREATE OR REPLACE FUNCTION leasehold.complete_many(job_ids bigint[], claim_ids bigint[], sizes integer[], worker_id uuid, keep_all_ms double precision, results jsonb[] DEFAULT NULL::jsonb[], keep_ms double precision[] DEFAULT NULL::double precision[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '5ms'
 SET jit TO 'off'
AS $function$
declare
  first integer := 1;
  last integer;
begin
  for place in 1 .. cardinality(claim_ids) loop
    last := first + sizes[place] - 1;
    if "leasehold".finish('completed', job_ids[first:last], worker_id, results => results[first:last],
      keep_ms => keep_ms[first:last], fence => claim_ids[place], keep_all_ms => keep_all_ms) < sizes[place]
    then
      raise no_data_found;
    end if;
    first := last + 1;
  end loop;
  return true;
exception when lock_not_available or no_data_found then
  return false;
end
$function$
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
  if not "leasehold".is_owner() then
    return null;
  end if;
  foreach parent in array array['archive', 'job_attempt'] loop
    for partition in
      select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = format('"leasehold".%I', parent)::regclass and c.relname ~ '_\d{8}$'
        and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= "leasehold".clock() - case parent when 'archive' then interval '0' else keep_attempts end
      order by c.relname
    loop
      begin
        -- Before the look: a transaction that has written to this day has ended now, and no other can begin to. Readers
        -- go on.
        execute format('lock table "leasehold".%I in share row exclusive mode', partition);
        if parent = 'archive' then
          execute format('select exists (
            select from "leasehold".%I a join "leasehold".idempotency_key k on k.queue = a.queue and k.key = a.idempotency_key
            where a.idempotency_key is not null and k.job_id = a.id and a.finished_at > "leasehold".clock() - k.keep_for)', partition)
          into needed;
          continue when needed;
        end if;
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
    'idempotency_key', 'keep_key_for', 'on_conflict', 'expires_at', 'metadata'];
  unknown text;
  configured record;
  to_queue text;
  with_key constant text := options ->> 'idempotency_key';
  keep_for interval;
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
  select k.queue, k.priority, k.max_attempts, k.keep_key into configured
  from "leasehold".kind k where k.name = enqueue.kind;
  to_queue := coalesce(options ->> 'queue', configured.queue, enqueue.kind);
  if octet_length(enqueue.kind) not between 1 and 200 or octet_length(to_queue) not between 1 and 200
    or octet_length(with_key) not between 1 and 1000 or octet_length(options ->> 'partition_key') not between 1 and 1000 then
    raise exception 'kind and queue hold 1 to 200 bytes, idempotency_key and partition_key 1 to 1000' using
      errcode = 'invalid_parameter_value';
  end if;
  if (options ->> 'priority')::smallint not between 0 and 9 or (options ->> 'max_attempts')::smallint < 1 then
    raise exception 'priority is 0 to 9, max_attempts at least 1' using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(enqueue.payload::text) > 1048576 then
    raise exception 'payload is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store the data elsewhere and enqueue its address.';
  end if;

  job_id := nextval('"leasehold".job_id');
  if with_key is not null then
    hash := "leasehold".input_hash(enqueue.payload);
    keep_for := coalesce((options ->> 'keep_key_for')::interval, configured.keep_key, interval '24 hours');
    loop
      -- Waits for a transaction that is inserting the same key. DO NOTHING locks no existing row.
      insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
      values (to_queue, with_key, enqueue.job_id, keep_for, hash, "leasehold".key_due_at(keep_for))
      on conflict do nothing;
      exit when found;
      -- A new statement, hence a new snapshot: it sees the row that was waited for.
      select k.job_id, k.input_hash = hash into job_id, same
      from "leasehold".idempotency_key k where k.queue = to_queue and k.key = with_key;
      if found then
        if not same and options ->> 'on_conflict' is distinct from 'return' then
          raise exception 'idempotency key "%" of queue "%" belongs to job %, which has another payload',
            with_key, to_queue, job_id using errcode = 'LH001',
            hint = 'Use another key, or the option {"on_conflict": "return"} and look at the outcome.';
        end if;
        outcome := case when same then 'existing' else 'conflict' end;
        return;
      end if;
      job_id := nextval('"leasehold".job_id'); -- pruned between the two statements
    end loop;
  end if;

  insert into "leasehold".job (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue,
    kind, payload, partition_key, idempotency_key, metadata)
  values (
    enqueue.job_id,
    coalesce((options ->> 'available_at')::timestamptz,
      "leasehold".clock() + coalesce((options ->> 'delay')::interval, interval '0')),
    "leasehold".clock(),
    coalesce((options ->> 'max_attempts')::smallint, configured.max_attempts, 5),
    coalesce((options ->> 'priority')::smallint, configured.priority, 5),
    coalesce("leasehold".bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint),
    (options ->> 'expires_at')::timestamptz,
    to_queue, enqueue.kind, enqueue.payload, options ->> 'partition_key', with_key,
    options -> 'metadata'
  );
  outcome := 'created';
  if not options ?| array['available_at', 'delay'] then
    perform "leasehold".wake(array[to_queue]);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.finish(status leasehold.job_status, job_ids bigint[], worker_id uuid, reasons text[] DEFAULT NULL::text[], errors jsonb[] DEFAULT NULL::jsonb[], results jsonb[] DEFAULT NULL::jsonb[], keep_ms double precision[] DEFAULT NULL::double precision[], fence bigint DEFAULT NULL::bigint, keep_all_ms double precision DEFAULT NULL::double precision)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_nestloop TO 'off'
 SET enable_mergejoin TO 'off'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  at constant timestamptz := "leasehold".clock();
  forgotten integer := 0;
  moved integer;
begin
  if job_ids is null then
    return 0;
  end if;
  if finish.status = 'dead_letter' then
    with ended as (
      delete from "leasehold".job where job.id = any (job_ids) and (fence is null or job.claim_id = fence) returning *
    )
    insert into "leasehold".dead_letter (id, died_at, available_at, created_at, lease_generation, claim_id, claimed_at,
      claimed_by, attempts, max_attempts, crashes, priority, partition_bucket, salt, blocked, queue, kind, reason, error,
      payload, partition_key, idempotency_key, metadata)
    select e.id, at, e.available_at, e.created_at, e.lease_generation, e.claim_id, e.claimed_at, finish.worker_id,
      e.attempts, e.max_attempts,
      case told.reason when 'lease_expired' then least(e.crashes, 32766) + 1 else e.crashes end, e.priority,
      e.partition_bucket, e.salt, e.blocked, e.queue, e.kind, told.reason, coalesce(told.error, (
        select a.error from "leasehold".job_attempt a where a.job_id = e.id and a.error is not null
        order by a.lease_generation desc, a.ended_at desc limit 1
      )), e.payload, e.partition_key, e.idempotency_key, e.metadata
    from ended e join unnest(job_ids, reasons, errors) as told (id, reason, error) on told.id = e.id;
    get diagnostics moved = row_count;
    return moved;
  end if;
  if finish.status = 'completed' and keep_all_ms is not null then
    with ended as (
      delete from "leasehold".job where job.id = any (job_ids) and (fence is null or job.claim_id = fence)
      returning job.id, job.available_at, job.created_at, job.lease_generation, job.claim_id, job.claimed_at, job.attempts,
        job.max_attempts, job.priority, job.partition_bucket, job.queue, job.kind, job.payload, job.partition_key,
        job.idempotency_key, job.metadata
    )
    insert into "leasehold".archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
      claimed_at, claimed_by, status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload,
      partition_key, idempotency_key, metadata, result, cancel_reason)
    select e.id, at + keep_all_ms * interval '1 ms', at, e.available_at, e.created_at, e.lease_generation, e.claim_id,
      e.claimed_at, finish.worker_id, finish.status, e.attempts, e.max_attempts, e.priority, e.partition_bucket, e.queue,
      e.kind, e.payload, e.partition_key, e.idempotency_key, e.metadata, null, null
    from ended e;
    get diagnostics moved = row_count;
    return moved;
  end if;
  if finish.status = 'completed' and keep_ms is null then
    delete from "leasehold".job
    where job.id = any (job_ids) and (fence is null or job.claim_id = fence) and job.idempotency_key is null;
    get diagnostics forgotten = row_count;
    if forgotten = cardinality(job_ids) then
      return forgotten;
    end if;
  end if;
  with ended as (
    delete from "leasehold".job where job.id = any (job_ids) and (fence is null or job.claim_id = fence) returning *
  ), archived as (
    insert into "leasehold".archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
      claimed_at, claimed_by, status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload,
      partition_key, idempotency_key, metadata, result, cancel_reason)
    select e.id, case finish.status when 'cancelled' then at + interval '7 days'
        else at + coalesce(told.keep_ms, 0) * interval '1 ms' end,
      at, e.available_at, e.created_at, e.lease_generation, e.claim_id, e.claimed_at, finish.worker_id, finish.status,
      e.attempts, e.max_attempts, e.priority, e.partition_bucket, e.queue, e.kind, e.payload, e.partition_key,
      e.idempotency_key, e.metadata, told.result, told.reason
    from ended e join unnest(job_ids, results, keep_ms, reasons) as told (id, result, keep_ms, reason) on told.id = e.id
    where finish.status = 'cancelled' or told.keep_ms is not null or e.idempotency_key is not null
  )
  select count(*) into moved from ended;
  return forgotten + moved;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.forgive(job_id bigint, claim_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
declare
  crashed record;
begin
  select a.lease_generation, a.ended_at, a.attempt into crashed
  from "leasehold".job_attempt a
  where a.job_id = forgive.job_id and a.claim_id = forgive.claim_id and a.outcome = 'crashed'
  limit 1;
  if not found then
    return false;
  end if;
  update "leasehold".job set crashes = job.crashes - 1, attempts = crashed.attempt - 1
  where job.id = (
    select j.id from "leasehold".job j
    where j.id = forgive.job_id and j.claim_id is null and j.lease_generation = crashed.lease_generation and j.crashes > 0
    for update skip locked
  );
  if not found then
    return false;
  end if;
  update "leasehold".job_attempt a set outcome = 'released'
  where a.job_id = forgive.job_id and a.lease_generation = crashed.lease_generation and a.ended_at = crashed.ended_at;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.generation_floor()
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((EXTRACT(epoch FROM leasehold.clock()) * (1000)::numeric))::bigint
;

CREATE OR REPLACE FUNCTION leasehold.input_hash(payload jsonb)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN sha256(convert_to((payload)::text, 'UTF8'::name))
;

CREATE OR REPLACE FUNCTION leasehold.is_owner()
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (SELECT pg_has_role(CURRENT_USER, pg_class.relowner, 'USAGE'::text) AS pg_has_role FROM pg_class WHERE (pg_class.oid = ('leasehold.job'::regclass)::oid))
;

CREATE OR REPLACE FUNCTION leasehold.key_due_at(keep_for interval)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((leasehold.clock() + LEAST(keep_for, '100 years'::interval)) + LEAST((keep_for / (16)::double precision), '00:30:00'::interval))
;

CREATE OR REPLACE FUNCTION leasehold.listen()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  topic text;
begin
  foreach topic in array array['wake', 'help', 'cancel', 'pause'] loop
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
  owner name;
  parent text;
  day date;
  partition text;
  made integer := 0;
begin
  if not "leasehold".is_owner() then
    return null;
  end if;
  select pg_get_userbyid(relowner) into owner from pg_class where oid = '"leasehold".job'::regclass;
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
        -- Made by a superuser or by a member of the owner, it could not be dropped by the owner.
        if owner <> current_user then
          execute format('alter table "leasehold".%I owner to %I', partition, owner);
        end if;
        execute format('alter table "leasehold".%I attach partition "leasehold".%I for values from (%L) to (%L)',
          parent, partition, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
        made := made + 1;
      exception
        -- Another session makes it; a reader holds the lock; or the default partition already holds rows of that day.
        when duplicate_table or duplicate_object or unique_violation or invalid_object_definition or lock_not_available
          or deadlock_detected or check_violation then null;
      end;
    end loop;
  end loop;
  return made;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.raise_job_id()
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  highest bigint;
begin
  if not "leasehold".is_owner() then
    return null;
  end if;
  select greatest(
    (select max(j.id) from "leasehold".job j), (select max(d.id) from "leasehold".dead_letter d),
    (select max(a.id) from "leasehold".archive a), (select max(k.job_id) from "leasehold".idempotency_key k),
    (select max(e.job_id) from "leasehold".effect e)
  ) into highest;
  if highest > (select s.last_value from "leasehold".job_id s) then
    return setval('"leasehold".job_id', highest);
  end if;
  return 0;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.requeue(job_id bigint, next_at timestamp with time zone, returns_attempt boolean, clears_crashes boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  update "leasehold".job
  set claim_id = null, claimed_at = null, available_at = next_at,
    attempts = case when returns_attempt then job.attempts - 1 else job.attempts end,
    crashes = case when clears_crashes then 0 else job.crashes end,
    expires_at = case when next_at = job.available_at then job.expires_at end
  where job.id = job_id;
  return 'pending';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.reserve_pages()
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  wide constant text := repeat('x', 1800);
begin
  if not "leasehold".is_owner() then
    return null;
  end if;
  -- Inserted and deleted in one transaction, so no session ever sees these rows. Each fills a good part of a page.
  if pg_relation_size('"leasehold".job') < 256 * 8192 then
    insert into "leasehold".job (id, available_at, created_at, partition_bucket, queue, kind, payload, blocked)
    select -n, 'infinity', 'infinity', 0, '', '', to_jsonb(wide), true from generate_series(1, 256) n;
    delete from "leasehold".job where id < 0;
  end if;
  if pg_relation_size('"leasehold".claim') < 256 * 8192 then
    insert into "leasehold".claim (id, worker_id, claimed_at, expires_at, job_ids)
    select -n, '00000000-0000-0000-0000-000000000000', '-infinity', 'infinity', array_fill(0::bigint, array[200])
    from generate_series(1, 1024) n;
    delete from "leasehold".claim where id < 0;
  end if;
  if pg_relation_size('"leasehold".dead_letter') < 256 * 8192 then
    insert into "leasehold".dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts,
      crashes, priority, partition_bucket, salt, blocked, queue, kind, reason, payload)
    select -n, 'infinity', 'infinity', 'infinity', 0, 0, 1, 0, 0, 0, 0, true, '', '', 'fatal', to_jsonb(wide)
    from generate_series(1, 1024) n;
    delete from "leasehold".dead_letter where id < 0;
  end if;
  if pg_relation_size('"leasehold".idempotency_key') < 256 * 8192 then
    insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
    select '', n::text, -n, '0', convert_to(wide, 'UTF8'), 'infinity' from generate_series(1, 1024) n;
    delete from "leasehold".idempotency_key where job_id < 0;
  end if;
  -- Made by a later migration; this runs after all of them.
  if pg_relation_size('"leasehold".effect') < 256 * 8192 then
    insert into "leasehold".effect (job_id, lease_generation, salt, started_at, finished_at, name, result)
    select -n, 0, 0, 'epoch', 'epoch', '', to_jsonb(wide) from generate_series(1, 1024) n;
    delete from "leasehold".effect where job_id < 0;
  end if;
  return true;
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
  woken text;
begin
  foreach woken in array queues loop
    if (select b.until > "leasehold".clock() from "leasehold".busy b where b.queue = woken) is not true
      and (select q.wakes from "leasehold".queue q where q.name = woken) is not false then
      perform "leasehold".tell('wake', woken);
    end if;
  end loop;
  return true;
end
$function$
;

create view leasehold.attempts as
 SELECT a.job_id,
    a.attempt,
    a.lease_generation,
    a.outcome::text AS outcome,
    a.started_at,
    a.ended_at,
    a.worker_id,
    w.label AS worker_label,
    a.error
   FROM leasehold.job_attempt a
     LEFT JOIN leasehold.worker w ON w.id = a.worker_id
UNION ALL
 SELECT a.id AS job_id,
    a.attempts AS attempt,
    a.lease_generation,
    'completed'::text AS outcome,
    a.claimed_at AS started_at,
    a.finished_at AS ended_at,
    a.claimed_by AS worker_id,
    w.label AS worker_label,
    NULL::jsonb AS error
   FROM leasehold.archive a
     LEFT JOIN leasehold.worker w ON w.id = a.claimed_by
  WHERE a.status = 'completed'::leasehold.job_status;

create view leasehold.jobs as
 SELECT j.id,
    j.queue,
    j.kind,
    j.payload,
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
            WHEN j.available_at > leasehold.clock() THEN
            CASE
                WHEN j.attempts > 0 THEN 'retrying'::text
                ELSE 'scheduled'::text
            END
            WHEN (EXISTS ( SELECT
               FROM leasehold.queue q
              WHERE q.name = j.queue AND q.paused_at IS NOT NULL)) OR (EXISTS ( SELECT
               FROM leasehold.kind k
              WHERE k.name = j.kind AND k.paused_at IS NOT NULL)) THEN 'paused'::text
            ELSE 'ready'::text
        END AS label,
    j.priority,
    j.available_at,
    j.attempts,
    j.max_attempts,
    j.crashes,
    c.worker_id AS claimed_by,
    w.label AS claimed_by_label,
    j.claimed_at,
    c.expires_at AS lease_expires_at,
    j.lease_generation,
    j.cancel_requested_at,
    j.expires_at,
    j.progress,
    ( SELECT a.error
           FROM leasehold.job_attempt a
          WHERE a.job_id = j.id AND a.error IS NOT NULL
          ORDER BY a.lease_generation DESC, a.ended_at DESC
         LIMIT 1) AS last_error,
    j.cancel_reason AS reason,
    NULL::jsonb AS result,
    j.metadata,
    j.created_at,
    NULL::timestamp with time zone AS completed_at
   FROM leasehold.job j
     LEFT JOIN leasehold.claim c ON c.id = j.claim_id
     LEFT JOIN leasehold.worker w ON w.id = c.worker_id
UNION ALL
 SELECT d.id,
    d.queue,
    d.kind,
    d.payload,
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
    w.label AS claimed_by_label,
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
    d.created_at,
    d.died_at AS completed_at
   FROM leasehold.dead_letter d
     LEFT JOIN leasehold.worker w ON w.id = d.claimed_by
UNION ALL
 SELECT a.id,
    a.queue,
    a.kind,
    a.payload,
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
    w.label AS claimed_by_label,
    a.claimed_at,
    NULL::timestamp with time zone AS lease_expires_at,
    a.lease_generation,
    NULL::timestamp with time zone AS cancel_requested_at,
    NULL::timestamp with time zone AS expires_at,
    NULL::jsonb AS progress,
    NULL::jsonb AS last_error,
    a.cancel_reason AS reason,
    a.result,
    a.metadata,
    a.created_at,
    a.finished_at AS completed_at
   FROM leasehold.archive a
     LEFT JOIN leasehold.worker w ON w.id = a.claimed_by;

create view leasehold.operator_actions as
 SELECT id,
    at,
    action,
    by,
    outcome,
    job_id,
    queue,
    kind,
    detail
   FROM leasehold.operator_action;

create view leasehold.workers as
 SELECT id,
    label,
    version,
    kinds,
    queues,
    started_at,
    last_seen_at,
    stopped_at
   FROM leasehold.worker;
