-- Made by `npm run schema` from a migrated database. Do not edit.

create type leasehold.attempt_outcome as enum ('failed', 'crashed', 'released', 'snoozed', 'cancelled');

create type leasehold.job_status as enum ('pending', 'processing', 'completed', 'dead_letter', 'cancelled');

create type leasehold.step_state as enum ('recorded', 'failed', 'retrying', 'waiting');

create sequence leasehold.event_place as bigint;

create sequence leasehold.fleet_event_id as bigint;

create sequence leasehold.job_id as bigint;

create sequence leasehold.operator_action_id as bigint;

create sequence leasehold.order_check_id as bigint;

create sequence leasehold.signal_id as bigint;

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
  cancel_requested_at timestamp with time zone,
  claimed_by uuid,
  attempts smallint not null,
  max_attempts smallint not null,
  crashes smallint not null,
  priority smallint not null,
  partition_bucket smallint not null,
  salt integer not null,
  blocks_key boolean not null default false,
  key_seq bigint,
  parent_id bigint,
  queue text not null,
  kind text not null,
  reason text not null,
  error jsonb,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  cancel_reason text,
  constraint dead_letter_reason CHECK ((reason = ANY (ARRAY['attempts_exhausted'::text, 'fatal'::text, 'invalid_input'::text, 'effect_unknown'::text, 'lease_expired'::text, 'expired'::text, 'parked'::text]))),
  constraint dead_letter_pkey PRIMARY KEY (id)
) with (vacuum_truncate=off);

create table leasehold.destination (
  name text not null,
  transport text not null,
  types text[],
  max_attempts smallint not null,
  constraint destination_pkey PRIMARY KEY (name)
);

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

create table leasehold.epoch (
  number bigint not null,
  salt integer not null default ((floor((random() * ('4294967296'::bigint)::double precision)) - ('2147483648'::bigint)::double precision))::integer,
  began_at timestamp with time zone not null,
  seats jsonb not null,
  strategies jsonb not null,
  constraint epoch_pkey PRIMARY KEY (number)
);

create table leasehold.event (
  id uuid not null,
  published_at timestamp with time zone not null,
  place bigint not null default nextval('leasehold.event_place'::regclass),
  time timestamp with time zone not null,
  source text not null,
  type text not null,
  subject text,
  key text,
  data_content_type text,
  data_schema text,
  extensions jsonb,
  data bytea,
  constraint event_pkey PRIMARY KEY (published_at, id)
) partition by RANGE (published_at);

create table leasehold.fleet_event (
  id bigint not null default nextval('leasehold.fleet_event_id'::regclass),
  at timestamp with time zone not null,
  what text not null,
  worker_id uuid,
  label text,
  detail jsonb,
  constraint fleet_event_is_known CHECK ((what = ANY (ARRAY['joined'::text, 'draining'::text, 'left'::text, 'died'::text, 'returned'::text, 'ring'::text, 'gained'::text, 'lost'::text]))),
  constraint fleet_event_pkey PRIMARY KEY (id)
);

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

create table leasehold.inbox (
  received_at timestamp with time zone not null,
  forget_at timestamp with time zone not null,
  duplicates integer not null default 0,
  source text not null,
  event_id text not null,
  body_hash bytea,
  constraint inbox_pkey PRIMARY KEY (source, event_id)
) with (fillfactor=90, vacuum_truncate=off);

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
  line smallint not null default 0,
  salt integer not null default ((floor((random() * ('4294967296'::bigint)::double precision)) - ('2147483648'::bigint)::double precision))::integer,
  blocked boolean not null default false,
  expires_at timestamp with time zone,
  cancel_requested_at timestamp with time zone,
  key_seq bigint,
  parent_id bigint,
  cancel_reason text,
  queue text not null,
  kind text not null,
  payload jsonb not null,
  partition_key text,
  idempotency_key text,
  metadata jsonb,
  progress jsonb,
  waiting_for text[],
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
  constraint kind_has_an_attempt CHECK ((max_attempts > 0)),
  constraint kind_priority_is_a_digit CHECK (((priority >= 0) AND (priority <= 9))),
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
  constraint action_is_known CHECK ((action = ANY (ARRAY['cancel'::text, 'redrive'::text, 'pause'::text, 'resume'::text, 'settle_effect'::text, 'unblock'::text, 'replay'::text, 'terminate'::text]))),
  constraint operator_action_pkey PRIMARY KEY (id)
);

create table leasehold.order_check (
  id bigint not null default nextval('leasehold.order_check_id'::regclass),
  queue text not null,
  key text not null,
  constraint order_check_pkey PRIMARY KEY (id)
) with (vacuum_truncate=off);

create table leasehold.order_key (
  queue text not null,
  key text not null,
  reused boolean not null default false,
  constraint order_key_pkey PRIMARY KEY (queue, key)
) with (fillfactor=70, vacuum_truncate=off, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_cost_delay=0);

create table leasehold.pause (
  queue text,
  kind text,
  at timestamp with time zone not null,
  by text,
  constraint pause_is_of_a_queue_or_a_kind CHECK ((num_nonnulls(queue, kind) = 1))
);

create table leasehold.queue (
  name text not null,
  ordered boolean not null default false,
  fair boolean not null default false,
  on_dead_letter text not null default 'block'::text,
  wakes boolean not null default true,
  ring text,
  by_key boolean not null default (ordered OR fair OR (ring IS NOT NULL)),
  constraint on_dead_letter_is_known CHECK ((on_dead_letter = ANY (ARRAY['block'::text, 'skip'::text, 'park'::text]))),
  constraint ordered_or_fair CHECK ((NOT (ordered AND fair))),
  constraint ring_is_known CHECK ((ring = ANY (ARRAY['consistent'::text, 'rendezvous'::text, 'modulo'::text, 'off'::text]))),
  constraint queue_pkey PRIMARY KEY (name)
);

create table leasehold.seat (
  number smallint not null,
  worker_id uuid not null,
  label text not null,
  weight real not null,
  queues text[] not null,
  epoch bigint not null,
  taken_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  constraint seat_number_is_known CHECK (((number >= 1) AND (number <= 1024))),
  constraint seat_pkey PRIMARY KEY (number)
) with (fillfactor=50);

create table leasehold.settings (
  id integer not null default 1,
  keep_dead_letters interval not null default '30 days'::interval,
  keep_attempts interval not null default '7 days'::interval,
  keep_effects interval not null default '72:00:00'::interval,
  keep_workers interval not null default '90 days'::interval,
  keep_events interval not null default '7 days'::interval,
  constraint settings_are_one_row CHECK ((id = 1)),
  constraint settings_pkey PRIMARY KEY (id)
);

create table leasehold.signal (
  id bigint not null default nextval('leasehold.signal_id'::regclass),
  job_id bigint not null,
  sent_at timestamp with time zone not null,
  salt integer not null,
  consumed boolean not null default false,
  noticed boolean not null default false,
  name text not null,
  idempotency_key text,
  payload jsonb,
  constraint signal_pkey PRIMARY KEY (job_id, id)
) with (fillfactor=80, vacuum_truncate=off);

create table leasehold.step (
  job_id bigint not null,
  recorded_at timestamp with time zone not null,
  started_at timestamp with time zone not null,
  wake_at timestamp with time zone,
  lease_generation bigint not null,
  signal_id bigint,
  child_id bigint,
  worker_id uuid not null,
  place integer not null,
  nth integer not null,
  salt integer not null,
  attempt smallint not null,
  joined boolean not null default false,
  state leasehold.step_state not null,
  type text not null,
  name text not null,
  result json,
  error jsonb,
  constraint step_pkey PRIMARY KEY (job_id, place, salt)
) with (vacuum_truncate=off);

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
  mode text not null default 'worker'::text,
  host text,
  pid integer,
  kinds text[] not null,
  queues text[] not null,
  started_at timestamp with time zone not null,
  last_seen_at timestamp with time zone not null,
  draining_at timestamp with time zone,
  dead_at timestamp with time zone,
  stopped_at timestamp with time zone,
  held integer,
  running integer,
  event_loop_ms double precision,
  rates jsonb,
  memory_bytes bigint,
  memory_limit_bytes bigint,
  constraint worker_mode_is_known CHECK ((mode = ANY (ARRAY['worker'::text, 'drain'::text, 'once'::text, 'by_hand'::text]))),
  constraint worker_pkey PRIMARY KEY (id)
) with (fillfactor=50);

CREATE INDEX claim_by_worker ON leasehold.claim USING btree (worker_id);

CREATE INDEX claim_to_sweep ON leasehold.claim USING btree (expires_at);

CREATE INDEX dead_letter_blocks ON leasehold.dead_letter USING btree (queue, partition_key, key_seq) WHERE blocks_key;

CREATE INDEX dead_letter_by_age ON leasehold.dead_letter USING btree (died_at, id);

CREATE INDEX dead_letter_by_queue ON leasehold.dead_letter USING btree (queue, died_at, id);

CREATE INDEX event_by_place ON ONLY leasehold.event USING btree (place);

CREATE INDEX fleet_event_by_age ON leasehold.fleet_event USING btree (at);

CREATE INDEX idempotency_key_by_job ON leasehold.idempotency_key USING btree (job_id);

CREATE INDEX idempotency_key_due ON leasehold.idempotency_key USING btree (due_at);

CREATE INDEX inbox_to_forget ON leasehold.inbox USING btree (forget_at);

CREATE INDEX job_in_key ON leasehold.job USING btree (queue, partition_key, key_seq) WHERE (key_seq IS NOT NULL);

CREATE INDEX job_suspect ON leasehold.job USING btree (queue, priority, available_at, id) WHERE ((NOT blocked) AND (crashes > 0));

CREATE INDEX job_to_claim ON leasehold.job USING btree (queue, line, priority, available_at, id) WHERE ((NOT blocked) AND (crashes = 0));

CREATE INDEX job_to_expire ON leasehold.job USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX operator_action_by_age ON leasehold.operator_action USING btree (at);

CREATE INDEX operator_action_by_job ON leasehold.operator_action USING btree (job_id) WHERE (job_id IS NOT NULL);

CREATE INDEX order_check_by_queue ON leasehold.order_check USING btree (queue, id);

CREATE INDEX queue_by_key ON leasehold.queue USING btree (name) WHERE by_key;

CREATE UNIQUE INDEX signal_once ON leasehold.signal USING btree (job_id, salt, name, idempotency_key) WHERE (idempotency_key IS NOT NULL);

CREATE INDEX signal_to_notice ON leasehold.signal USING btree (id) WHERE (NOT noticed);

CREATE INDEX signal_to_receive ON leasehold.signal USING btree (job_id, name, id) WHERE (NOT consumed);

CREATE INDEX step_child ON leasehold.step USING btree (child_id) WHERE (child_id IS NOT NULL);

CREATE INDEX worker_dead ON leasehold.worker USING btree (dead_at) WHERE (dead_at IS NOT NULL);

CREATE INDEX worker_running ON leasehold.worker USING btree (id) WHERE ((stopped_at IS NULL) AND (dead_at IS NULL));

CREATE INDEX worker_stopped ON leasehold.worker USING btree (stopped_at) WHERE (stopped_at IS NOT NULL);

CREATE OR REPLACE FUNCTION leasehold.advance(queues text[], keys text[], from_seqs bigint[] DEFAULT NULL::bigint[], is_open boolean DEFAULT false)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_nestloop TO 'on'
 SET enable_sort TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  at constant timestamptz := "leasehold".clock();
  is_completion constant boolean := from_seqs is not null;
  ordered boolean[];
  heads bigint[];
  locked bigint[];
  no_queues text[];
  no_keys text[];
  idle_queues text[];
  idle_keys text[];
  of_queue text;
  woken text[];
  woken_lines integer[];
  let_in integer;
begin
  if queues is null then
    return 0;
  end if;
  select array_agg(k.queue), array_agg(k.key), array_agg((
    select q.ordered from "leasehold".queue q where q.name = k.queue
  )), array_agg(k.from_seq) into queues, keys, ordered, from_seqs
  from (
    select i.queue, i.key, coalesce(min(i.from_seq), 0) as from_seq
    from unnest(queues, keys, from_seqs) as i (queue, key, from_seq)
    group by i.queue, i.key order by i.queue, i.key
  ) as k;
  select array_agg(head.id order by k.place) into heads
  from unnest(queues, keys, ordered, from_seqs) with ordinality as k (queue, key, ordered, from_seq, place)
  left join lateral (
    select job.id from "leasehold".job
    where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq
      and (k.ordered or job.claim_id is null)
    order by job.key_seq
    limit 1
  ) head on true;
  select array_agg(l.id) into locked
  from (select job.id from "leasehold".job where job.id = any (heads) for update skip locked) as l;
  with moved as (
    update "leasehold".job set blocked = false, available_at = greatest(job.available_at, at)
    where job.id = any (locked) and job.blocked and job.claim_id is null and (
      select true from "leasehold".dead_letter d
      where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq < job.key_seq
      limit 1
    ) is null and (is_completion and not is_open or (
      -- Since the look above a dead letter that blocked the key may have been redriven: it comes first. Behind a job that is completed
      -- there is none in front, but in a caller's transaction it may be one that was left of a claim that was swept.
      select true from "leasehold".job ahead
      where ahead.queue = job.queue and ahead.partition_key = job.partition_key and ahead.key_seq < job.key_seq
        and (ahead.claim_id is null or (select q.ordered from "leasehold".queue q where q.name = ahead.queue))
      limit 1
    ) is null)
    returning job.queue, job.line, job.available_at
  )
  select count(*), array_agg(moved.queue) filter (where moved.available_at <= at),
    array_agg(moved.line) filter (where moved.available_at <= at) into let_in, woken, woken_lines from moved;
  if woken is not null then
    perform "leasehold".wake_lines(woken, woken_lines);
  end if;
  if cardinality(locked) = cardinality(queues) then
    return let_in;
  end if;
  -- The others: the key is empty, as far as this transaction sees, or its head is locked.
  insert into "leasehold".order_check (queue, key)
  select k.queue, k.key from unnest(queues, keys, heads) as k (queue, key, head)
  where k.head is not null and k.head <> all (coalesce(locked, '{}'));
  select array_agg(k.queue), array_agg(k.key), array_agg(k.ordered), array_agg(k.from_seq)
  into no_queues, no_keys, ordered, from_seqs
  from unnest(queues, keys, heads, ordered, from_seqs) as k (queue, key, head, ordered, from_seq) where k.head is null;
  if no_queues is null then
    return let_in;
  end if;
  if is_open then
    insert into "leasehold".order_check (queue, key) select k.queue, k.key from unnest(no_queues, no_keys) as k (queue, key);
    perform "leasehold".wake(array(select distinct k.queue from unnest(no_queues) as k (queue)));
    return let_in;
  end if;
  -- A producer that has the row of the key may have stored a job behind what has just left.
  select array_agg(o.queue), array_agg(o.key), array_agg(k.ordered), array_agg(k.from_seq)
  into idle_queues, idle_keys, ordered, from_seqs
  from unnest(no_queues, no_keys, ordered, from_seqs) as k (queue, key, ordered, from_seq)
  cross join lateral (
    select order_key.queue, order_key.key from "leasehold".order_key
    where order_key.queue = k.queue and order_key.key = k.key
    for update skip locked
  ) o;
  if cardinality(idle_queues) is distinct from cardinality(no_queues) then
    insert into "leasehold".order_check (queue, key)
    select k.queue, k.key from unnest(no_queues, no_keys) as k (queue, key)
    where not exists (
      select from unnest(idle_queues, idle_keys) as i (queue, key) where i.queue = k.queue and i.key = k.key
    ) and (select true from "leasehold".order_key o where o.queue = k.queue and o.key = k.key limit 1);
  end if;
  -- With the row of the key locked, no producer can add to it: what is empty now stays so until this transaction commits. One may
  -- have committed since the first look.
  with looked as materialized (
    select k.*, (
      select true from "leasehold".job
      where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq
        and (k.ordered or job.claim_id is null)
      limit 1
    ) is true as is_used, (
      select true from "leasehold".dead_letter d where d.blocks_key and d.queue = k.queue and d.partition_key = k.key limit 1
    ) is true as is_blocked
    from unnest(idle_queues, idle_keys, ordered, from_seqs) as k (queue, key, ordered, from_seq)
  )
  select array_agg(l.queue) filter (where l.is_used), array_agg(l.key) filter (where l.is_used),
    array_agg(l.from_seq) filter (where l.is_used), array_agg(l.queue) filter (where not l.is_used and not l.is_blocked),
    array_agg(l.key) filter (where not l.is_used and not l.is_blocked)
  into queues, keys, from_seqs, idle_queues, idle_keys
  from looked l;
  -- Queue by queue: a join walked all keys under a plan that was made while there were none.
  for of_queue in select distinct i.queue from unnest(idle_queues) as i (queue) loop
    delete from "leasehold".order_key
    where order_key.queue = of_queue and order_key.key = any (array(
      select i.key from unnest(idle_queues, idle_keys) as i (queue, key) where i.queue = of_queue
    ));
  end loop;
  return let_in + "leasehold".advance(queues, keys, case when is_completion then from_seqs end);
end
$function$
;

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

CREATE OR REPLACE FUNCTION leasehold.check_order(queues text[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
declare
  at_queues text[];
  at_keys text[];
begin
  with due as (
    delete from "leasehold".order_check
    where order_check.id = any (array(
      select c.id from "leasehold".order_check c
      left join lateral (
        select true as is_free from "leasehold".order_key o where o.queue = c.queue and o.key = c.key for update skip locked
      ) k on true
      left join lateral (
        select job.id, job.claim_id, job.key_seq from "leasehold".job
        where job.queue = c.queue and job.partition_key = c.key and job.key_seq is not null and (
          job.claim_id is null or (select q.ordered from "leasehold".queue q where q.name = c.queue)
        )
        order by job.key_seq
        limit 1
      ) head on true
      left join lateral (
        select true as is_free from "leasehold".job where job.id = head.id for update skip locked
      ) h on true
      where c.queue = any (queues) and (
        head.id is null or h.is_free and (head.claim_id is null or (
          select true from "leasehold".dead_letter d
          where d.blocks_key and d.queue = c.queue and d.partition_key = c.key and d.key_seq < head.key_seq
          limit 1
        ) is null)
      ) and (
        k.is_free
        or (
          select j.blocked from "leasehold".job j
          where j.queue = c.queue and j.partition_key = c.key and j.key_seq is not null and j.claim_id is null
          order by j.key_seq
          limit 1
        )
        or (select true from "leasehold".order_key o where o.queue = c.queue and o.key = c.key limit 1) is null
      )
      order by c.id
      limit 1000
      for update of c skip locked
    ))
    returning order_check.queue, order_check.key
  )
  select array_agg(due.queue), array_agg(due.key) into at_queues, at_keys from due;
  perform "leasehold".park_behind(at_queues, at_keys);
  return "leasehold".advance(at_queues, at_keys);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.claim(claim_id bigint, worker_id uuid, lease_ms double precision, max_jobs integer, kinds text[], queues text[], priorities smallint[] DEFAULT NULL::smallint[], from_at timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], from_id bigint[] DEFAULT NULL::bigint[], crashes_from smallint DEFAULT 0, crashes_to smallint DEFAULT 0, buckets bytea[] DEFAULT NULL::bytea[], share integer DEFAULT NULL::integer, older_ms double precision DEFAULT NULL::double precision, younger_ms double precision DEFAULT NULL::double precision, run_length integer DEFAULT 0, lines smallint[] DEFAULT NULL::smallint[])
 RETURNS TABLE(id bigint, lease_generation bigint, attempts smallint, max_attempts smallint, queue text, kind text, payload jsonb, priority smallint, available_at text, created_at text, partition_key text, partition_bucket smallint, salt integer, metadata jsonb, line smallint, key_seq bigint)
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
  first_kind constant text := kinds[1];
  began constant timestamptz := clock_timestamp();
  until constant timestamptz := at - coalesce(older_ms, 0) * interval '1 ms';
  at_most constant integer := least(share, max_jobs);
  picked bigint[];
  size_at_most bigint;
  rendered bigint := 0;
  used_queues text[];
  used_lines smallint[];
  used_priorities smallint[];
  used_turns bigint[];
  next_queues text[];
  next_lines smallint[];
  next_priorities smallint[];
  next_turns bigint[];
  leaves_out_paused boolean := false;
  has_ordered boolean;
  ordered_queues text[];
  has_more boolean;
begin
  -- Keys that could not be judged when their last job left.
  if exists (select from "leasehold".order_check c where c.id > 0) then
    perform "leasehold".check_order(queues);
  end if;
  if lines is null then
    lines := array_fill(0::smallint, array[cardinality(queues)]);
  end if;
  if priorities is null and older_ms is null and younger_ms is null then
    select array_agg(l.queue), array_agg(l.line), array_agg(l.priority), array_agg(l.turn)
    into used_queues, used_lines, used_priorities, used_turns
    from unnest(queues, lines) with ordinality as spot (queue, line, turn)
    cross join lateral (
      select spot.queue, spot.line, spot.turn, job.priority
      from "leasehold".job
      where job.queue = spot.queue and job.line = spot.line and not job.blocked and job.crashes = 0
      order by job.queue desc, job.line desc, job.priority desc, job.available_at desc, job.id desc
      limit 1
    ) l;
    next_queues := used_queues;
    next_lines := used_lines;
    next_priorities := used_priorities;
    next_turns := used_turns;
    while next_queues is not null loop
      select array_agg(l.queue), array_agg(l.line), array_agg(l.priority), array_agg(l.turn)
      into next_queues, next_lines, next_priorities, next_turns
      from unnest(next_queues, next_lines, next_priorities, next_turns) as spot (queue, line, priority, turn)
      cross join lateral (
        select spot.queue, spot.line, spot.turn, job.priority
        from "leasehold".job
        where job.queue = spot.queue and job.line = spot.line and job.priority < spot.priority and not job.blocked
          and job.crashes = 0
        order by job.queue desc, job.line desc, job.priority desc, job.available_at desc, job.id desc
        limit 1
      ) l;
      used_queues := used_queues || next_queues;
      used_lines := used_lines || next_lines;
      used_priorities := used_priorities || next_priorities;
      used_turns := used_turns || next_turns;
    end loop;
    select array_agg(spot.queue order by spot.priority, spot.turn), array_agg(spot.line order by spot.priority, spot.turn),
      array_agg(spot.priority order by spot.priority, spot.turn)
    into queues, lines, priorities
    from unnest(used_queues, used_lines, used_priorities, used_turns) as spot (queue, line, priority, turn);
  elsif priorities is null then
    select array_agg(spot.queue order by level.priority, spot.turn), array_agg(spot.line order by level.priority, spot.turn),
      array_agg(level.priority::smallint order by level.priority, spot.turn)
    into queues, lines, priorities
    from unnest(queues, lines) with ordinality as spot (queue, line, turn) cross join generate_series(0, 9) as level (priority);
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
      select array_agg(j.id), sum(j.size), bool_or(j.is_ordered) into picked, size_at_most, has_ordered
      from (
        select j.id, j.size, j.is_ordered
        from (
          select unnest(queues) as queue, unnest(lines) as line, unnest(priorities) as priority, unnest(from_at) as from_at,
            unnest(from_id) as from_id
        ) as spot
        cross join lateral (
          select job.id, case
              when pg_column_size(job.payload) < 1500 or pg_column_compression(job.payload) is null
              then pg_column_size(job.payload) else 100 * pg_column_size(job.payload)
            end as size, job.key_seq is not null as is_ordered
          from "leasehold".job
          where job.queue = spot.queue and job.line = spot.line and job.priority = spot.priority and not job.blocked
            and job.crashes = 0
            and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= until
            and job.claim_id is null and job.kind = any (kinds) and (job.key_seq is null or run_length > 0)
            and (job.expires_at is null or job.expires_at > at)
          order by job.available_at, job.id
          limit at_most
          for update skip locked
        ) j
        where leaves_out_paused or not exists (select from "leasehold".pause)
        limit max_jobs
      ) j;
    else
      select array_agg(j.id), sum(j.size), bool_or(j.is_ordered) into picked, size_at_most, has_ordered
      from (
        select j.id, j.size, j.is_ordered
        from (
          select unnest(queues) as queue, unnest(priorities) as priority, unnest(from_at) as from_at, unnest(from_id) as from_id,
            unnest(buckets) as buckets
        ) as spot
        cross join lateral (
          select job.id, case
              when pg_column_size(job.payload) < 1500 or pg_column_compression(job.payload) is null
              then pg_column_size(job.payload) else 100 * pg_column_size(job.payload)
            end as size, job.key_seq is not null as is_ordered
          from "leasehold".job
          where job.queue = spot.queue and job.priority = spot.priority and not job.blocked and job.crashes > 0
            and job.crashes between crashes_from and crashes_to
            and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= until
            and job.claim_id is null and job.kind = any (kinds) and (job.key_seq is null or run_length > 0)
            and (job.expires_at is null or job.expires_at > at)
            and (spot.buckets is null or job.line = 0 or get_bit(spot.buckets, job.line - 1) = 1)
          order by job.available_at, job.id
          limit at_most
          for update skip locked
        ) j
        where leaves_out_paused or not exists (select from "leasehold".pause)
        limit max_jobs
      ) j;
    end if;
    -- Two steps, since a condition with a subselect is a statement of its own.
    exit when picked is not null or leaves_out_paused;
    exit when not exists (select from "leasehold".pause);
    leaves_out_paused := true;
    kinds := array(
      select asked.name from unnest(kinds) as asked (name)
      where asked.name not in (select p.kind from "leasehold".pause p where p.kind is not null));
    -- Without a kind the walk would step over the whole backlog, and find nothing.
    if kinds = '{}' then
      return next;
      return;
    end if;
    select array_agg(asked.queue), array_agg(asked.line), array_agg(asked.priority), array_agg(asked.from_at),
      array_agg(asked.from_id), array_agg(asked.buckets)
    into queues, lines, priorities, from_at, from_id, buckets
    from unnest(queues, lines, priorities, from_at, from_id, buckets) as asked (queue, line, priority, from_at, from_id, buckets)
    where asked.queue not in (select p.queue from "leasehold".pause p where p.queue is not null);
  end loop;
  lease_generation := extract(epoch from clock_timestamp() - began) * 1000000;
  attempts := coalesce(cardinality(picked), 0);
  available_at := encode(timestamptz_send(at), 'hex');
  key_seq := generation_floor;
  if picked is null then
    return next;
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
  if has_ordered then
    ordered_queues := array(select q.name from "leasehold".queue q where q.by_key and q.ordered);
    if crashes_to = 0 and (run_length > 1 or cardinality(picked) < max_jobs) then
      select w.ids, w.more into picked, has_more
      from "leasehold".with_runs(picked, kinds, run_length, max_jobs, ordered_queues) w;
      if has_more then
        attempts := cardinality(picked) + 1;
      end if;
    end if;
  end if;
  return next;
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
    returning job.id, nullif(job.lease_generation, generation_floor), nullif(job.attempts, 1::smallint),
      nullif(job.max_attempts, 5::smallint), nullif(job.queue, job.kind), nullif(job.kind, first_kind), job.payload,
      nullif(job.priority, 5::smallint), encode(timestamptz_send(job.available_at), 'hex'),
      case when job.created_at <> job.available_at then encode(timestamptz_send(job.created_at), 'hex') end,
      job.partition_key, job.partition_bucket, job.salt, job.metadata, nullif(job.line, 0::smallint),
      case when job.key_seq is not null and job.queue = any (ordered_queues) then job.key_seq
        when job.parent_id is not null then -1 end;
  -- A job with a place in a queue that is not ordered is of a fair one.
  if has_ordered and not queues <@ ordered_queues then
    perform "leasehold".take_turns(picked, ordered_queues);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN statement_timestamp()
;

CREATE OR REPLACE FUNCTION leasehold.complete_many(job_ids bigint[], claim_ids bigint[], sizes integer[], worker_id uuid, keep_all_ms double precision, results jsonb[] DEFAULT NULL::jsonb[], keep_ms double precision[] DEFAULT NULL::double precision[], run_from bigint[] DEFAULT NULL::bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET lock_timeout TO '5ms'
 SET jit TO 'off'
AS $function$
declare
  first integer;
  last integer;
begin
  loop
    begin
      first := 1;
      for place in 1 .. cardinality(claim_ids) loop
        last := first + sizes[place] - 1;
        if run_from is not null and (select c.swept from "leasehold".claim c where c.id = claim_ids[place]) then
          raise no_data_found;
        end if;
        if "leasehold".finish('completed', job_ids[first:last], worker_id, results => results[first:last],
          keep_ms => keep_ms[first:last], fence => claim_ids[place], keep_all_ms => keep_all_ms,
          lets_in => run_from is not null, run_from => run_from[first:last]) < sizes[place]
        then
          raise no_data_found;
        end if;
        first := last + 1;
      end loop;
      return true;
    exception
      when no_data_found then
        return false;
      when lock_not_available then
        null;
    end;
    if (
      select count(*) from (select from "leasehold".job j where j.id = any (job_ids) for update skip locked) as locked
    ) < cardinality(job_ids) then
      return false;
    end if;
    perform set_config('lock_timeout', '0', true);
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.consume(job_ids bigint[], signal_ids bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  -- One a call: two lists would be probed in every combination.
  for n in 1 .. cardinality(job_ids) loop
    update "leasehold".signal s set consumed = true where s.job_id = job_ids[n] and s.id = signal_ids[n];
  end loop;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.count_from_here(job_ids bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
begin
  update "leasehold".job set attempts = 1, crashes = 0
  where id = any (array(select j.id from "leasehold".job j where j.id = any (job_ids) for update skip locked));
  return true;
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
  ends timestamptz;
  needed boolean;
  keep_events constant interval := (select s.keep_events from "leasehold".settings s);
  dropped integer := 0;
begin
  if not "leasehold".is_owner() then
    return null;
  end if;
  foreach parent in array array['archive', 'job_attempt', 'event'] loop
    for partition, ends in
      select c.relname, (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = format('"leasehold".%I', parent)::regclass and c.relname ~ '_\d{8}$'
        and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= "leasehold".clock() - case parent when 'archive' then interval '0' when 'event' then keep_events else keep_attempts end
      order by c.relname
    loop
      begin
        if parent = 'event' then
          exit when "leasehold".has_unsent(ends);
          execute format('lock table "leasehold".%I in access exclusive mode', partition);
          exit when "leasehold".has_unsent(ends);
        else
          -- Before the look: a transaction that has written to this day has ended now, and no other can begin to. Readers
          -- go on.
          execute format('lock table "leasehold".%I in share row exclusive mode', partition);
        end if;
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
  -- Events of days that had no partition. The same two looks, and the same lock.
  begin
    ends := "leasehold".clock() - keep_events;
    if exists (select from "leasehold".event_default where published_at < ends) and not "leasehold".has_unsent(ends) then
      lock table "leasehold".event_default in access exclusive mode;
      if not "leasehold".has_unsent(ends) then
        delete from "leasehold".event_default where published_at < ends;
      end if;
    end if;
  exception
    when lock_not_available or deadlock_detected then null;
  end;
  return dropped;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.end_of_job(status leasehold.job_status, result jsonb, error jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (jsonb_strip_nulls(jsonb_build_object('status', status, 'error', error)) || jsonb_build_object('result', result))
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
  available constant timestamptz := coalesce((options ->> 'available_at')::timestamptz,
    "leasehold".clock() + coalesce((options ->> 'delay')::interval, interval '0'));
  by_key boolean;
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
  if starts_with(to_queue, 'outbox:') or starts_with(enqueue.kind, 'outbox:') then
    raise exception 'kind "%" in queue "%": names that begin with outbox: are those of destinations', enqueue.kind, to_queue using
      errcode = 'reserved_name', hint = 'Use another name, or "leasehold".publish() for an event.';
  end if;
  if (options ->> 'priority')::smallint not between 0 and 9 or (options ->> 'max_attempts')::smallint < 1 then
    raise exception 'priority is 0 to 9, max_attempts at least 1' using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(enqueue.payload::text) > 1048576 then
    raise exception 'payload is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store the data elsewhere and enqueue its address.';
  end if;

  by_key := exists (select from "leasehold".queue q where q.by_key and q.name = to_queue);
  if with_key is not null then
    hash := "leasehold".input_hash(enqueue.payload);
    keep_for := coalesce((options ->> 'keep_key_for')::interval, configured.keep_key, interval '24 hours');
  end if;
  if not by_key then
    job_id := nextval('"leasehold".job_id');
  end if;
  outcome := 'created';
  if with_key is not null or by_key then
    loop
      if by_key then
        -- Stores the job, too, unless its key is taken.
        select o.job_id into job_id
        from "leasehold".enqueue_in_order(array[to_queue], array[enqueue.kind], array[enqueue.payload::text],
          array[coalesce((options ->> 'priority')::smallint, configured.priority, 5::smallint)],
          array[coalesce((options ->> 'max_attempts')::smallint, configured.max_attempts, 5::smallint)],
          array[coalesce("leasehold".bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint)],
          array[0::double precision],
          array[options - array['queue', 'priority', 'delay', 'max_attempts', 'idempotency_key', 'keep_key_for', 'on_conflict']
            || jsonb_build_object('available_at', available)],
          case when with_key is not null then array[with_key] end,
          case when with_key is not null then array[extract(epoch from keep_for)::double precision * 1000] end) o;
        if found then
          return;
        end if;
      else
        -- Waits for a transaction that is inserting the same key. DO NOTHING locks no existing row.
        insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
        values (to_queue, with_key, enqueue.job_id, keep_for, hash, "leasehold".key_due_at(keep_for))
        on conflict do nothing;
        exit when found;
      end if;
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
  select enqueue.job_id, available, "leasehold".clock(),
    coalesce((options ->> 'max_attempts')::smallint, configured.max_attempts, 5),
    coalesce((options ->> 'priority')::smallint, configured.priority, 5),
    coalesce("leasehold".bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint),
    (options ->> 'expires_at')::timestamptz,
    to_queue, enqueue.kind, enqueue.payload, options ->> 'partition_key', with_key,
    options -> 'metadata'
  where not exists (select from "leasehold".queue q where q.by_key and q.name = to_queue);
  if not found then
    raise exception 'queue "%" has been configured anew meanwhile', to_queue using
      errcode = 'serialization_failure', hint = 'Send it again.';
  end if;
  if not options ?| array['available_at', 'delay'] then
    perform "leasehold".wake(array[to_queue]);
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.enqueue_alike_in_order(of_queue text, of_kind text, inputs text, of_priority smallint, attempts_at_most smallint, buckets smallint[], delay_ms double precision, partition_keys text, must_be_ordered boolean DEFAULT true)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
declare
  at constant timestamptz := "leasehold".clock();
  available constant timestamptz := "leasehold".clock() + delay_ms * interval '1 ms';
  keys constant text[] := array(select jsonb_array_elements_text(partition_keys::jsonb));
  is_ordered boolean;
  parks boolean;
  on_ring boolean;
  distinct_keys text[];
  first_places integer[];
  are_new boolean[];
  free_places integer[];
  blocks boolean[];
  place integer;
  ids bigint[];
begin
  select q.ordered, q.on_dead_letter = 'park', q.ring is not null into is_ordered, parks, on_ring
  from "leasehold".queue q where q.by_key and not q.fair and q.name = of_queue;
  if not found or must_be_ordered and not is_ordered then
    return null;
  end if;
  if not is_ordered then
    -- By bucket, so that jobs that one worker claims lie beside each other in the table and in its indexes.
    with input as (
      select generate_series(1, cardinality(keys)) as nth, unnest(buckets) as bucket, jsonb_array_elements(inputs::jsonb) as payload,
        unnest(keys) as key
    ), drawn as materialized (
      select nextval('"leasehold".job_id') as id, i.* from (select * from input order by input.bucket, input.nth) as i
    ), added as (
      insert into "leasehold".job (id, available_at, created_at, max_attempts, priority, partition_bucket, queue, kind, payload,
        partition_key, line)
      select d.id, available, at, attempts_at_most, of_priority, d.bucket, of_queue, of_kind, d.payload, d.key, d.bucket + 1
      from drawn d
    )
    select coalesce(array_agg(d.id order by d.nth), '{}') into ids from drawn d;
    -- As at the end of enqueue_in_order().
    if (select q.ordered or q.fair from "leasehold".queue q where q.name = of_queue) is not false then
      raise exception 'whether a queue is ordered has changed meanwhile' using
        errcode = 'serialization_failure', hint = 'Send it again.';
    end if;
    if delay_ms <= 0 then
      perform "leasehold".wake_lines(array_agg(of_queue), array_agg(b.bucket + 1)) from unnest(buckets) as b (bucket);
    end if;
    return ids;
  end if;
  select array_agg(k.key), array_agg(k.place) into distinct_keys, first_places
  from (
    select i.key, min(i.place)::integer as place from unnest(keys) with ordinality as i (key, place)
    group by i.key order by i.key
  ) as k;
  -- Many keys are mostly new, or mostly not, and a plain insert costs half of what an upsert does. It waits for the same rows in the
  -- same order, and fails at the first key that is there: then it has locked none, and the upsert begins anew.
  if cardinality(distinct_keys) >= 100 then
    begin
      insert into "leasehold".order_key (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key);
      free_places := first_places;
    exception when unique_violation then
      null;
    end;
  end if;
  if free_places is null then
    with locked as (
      insert into "leasehold".order_key (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key)
      on conflict (queue, key) do update set reused = true
      returning order_key.reused
    )
    select array_agg(not locked.reused) into are_new from locked;
    free_places := array(select k.place from unnest(first_places, are_new) as k (place, is_new) where k.is_new);
  end if;
  -- A key that had no row is empty, and its first job of this call is the head. Behind any other something waits, or a check is due.
  blocks := array_fill(true, array[cardinality(keys)]);
  foreach place in array free_places loop
    blocks[place] := false;
  end loop;
  ids := array(select nextval('"leasehold".job_id') from generate_series(1, cardinality(keys)));
  insert into "leasehold".job (id, available_at, created_at, max_attempts, priority, partition_bucket, queue, kind, payload,
    partition_key, key_seq, blocked, line)
  select i.id, available, at, attempts_at_most, of_priority, i.bucket, of_queue, of_kind, i.payload, i.key, i.id, i.is_blocked,
    case when on_ring then i.bucket + 1 else 0 end
  from (
    select unnest(ids) as id, jsonb_array_elements(inputs::jsonb) as payload, unnest(buckets) as bucket, unnest(keys) as key,
      unnest(blocks) as is_blocked
  ) as i;
  -- What is parked behind a dead letter is moved by a check.
  if parks and exists (select from "leasehold".dead_letter b where b.blocks_key and b.queue = of_queue) then
    insert into "leasehold".order_check (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key);
  end if;
  -- Also for jobs that are blocked: what is in front may have left before this commits, and then a claim has to look.
  if delay_ms <= 0 then
    if on_ring then
      perform "leasehold".wake_lines(array_agg(of_queue), array_agg(b.bucket + 1)) from unnest(buckets) as b (bucket);
    else
      perform "leasehold".wake(array[of_queue]);
    end if;
  end if;
  return ids;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.enqueue_in_order(queues text[], kinds text[], payloads text[], priorities smallint[], max_attempts smallint[], buckets smallint[], delays_ms double precision[], more jsonb[], idempotency_keys text[] DEFAULT NULL::text[], keep_key_ms double precision[] DEFAULT NULL::double precision[], must_be_ordered text[] DEFAULT NULL::text[])
 RETURNS TABLE(place bigint, job_id bigint)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  at constant timestamptz := "leasehold".clock();
  ordered_queues constant text[] := array(
    select q.name from "leasehold".queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name);
  ring_queues constant text[] := array(
    select q.name from "leasehold".queue q where q.by_key and q.ring is not null and q.name = any (queues));
  fair_queues constant text[] := array(
    select q.name from "leasehold".queue q where q.by_key and q.fair and q.name = any (queues));
  taken boolean[];
  partition_keys text[];
  missing text;
  ids bigint[];
  key_queues text[];
  key_keys text[];
  new_keys boolean[];
begin
  select array_agg(i.more ->> 'partition_key' order by i.place), min(i.queue) filter (
      where i.more ->> 'partition_key' is null and i.queue = any (ordered_queues))
  into partition_keys, missing
  from unnest(queues, more) with ordinality as i (queue, more, place);
  if not must_be_ordered <@ ordered_queues then
    raise exception 'queue "%" is not ordered', (
      select min(q.name) from unnest(must_be_ordered) as q (name) where q.name <> all (ordered_queues)
    ) using errcode = 'LH003', hint = 'configure() the queue as ordered, before its first job.';
  end if;
  if missing is not null then
    raise exception 'queue "%" is ordered, and a job has no partition_key', missing using
      errcode = 'LH002', hint = 'Pass the key whose jobs must run in order, such as order:9182.';
  end if;
  if idempotency_keys is not null then
    with input as materialized (
      select nextval('"leasehold".job_id') as id, i.* from unnest(queues, idempotency_keys, keep_key_ms, payloads)
        with ordinality as i (queue, key, keep_ms, payload, place)
    ), kept as (
      insert into "leasehold".idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
      select i.queue, i.key, i.id, i.keep_ms * interval '1 ms', "leasehold".input_hash(i.payload::jsonb),
        "leasehold".key_due_at(i.keep_ms * interval '1 ms')
      from input i where i.key is not null order by i.queue, i.key, i.place
      on conflict do nothing
      returning job_id
    )
    select array_agg(i.id order by i.place), array_agg(i.key is not null and i.id not in (select kept.job_id from kept)
      order by i.place)
    into ids, taken from input i;
  end if;
  select array_agg(k.queue), array_agg(k.key) into key_queues, key_keys
  from (
    select distinct i.queue, i.key from unnest(queues, partition_keys, taken) as i (queue, key, taken)
    where i.key is not null and i.queue = any (ordered_queues || fair_queues) and i.taken is not true
    order by i.queue, i.key
  ) as k;
  with locked as (
    insert into "leasehold".order_key (queue, key)
    select k.queue, k.key from unnest(key_queues, key_keys) as k (queue, key)
    on conflict (queue, key) do update set reused = true
    returning order_key.queue, order_key.key, order_key.reused
  )
  select array_agg(l.queue), array_agg(l.key), array_agg(not l.reused) into key_queues, key_keys, new_keys from locked l;
  -- A new statement, hence a new snapshot: it sees what committed while this waited for the keys.
  return query
    with keys as materialized (
      -- A key whose row is new is empty. In an ordered queue something waits behind any other, or a check is due. In a fair queue
      -- the last job is looked for: it is mostly there, and those that have left lie at the beginning.
      select k.queue, k.key, not k.is_new and (k.queue = any (ordered_queues) or (
          select true from "leasehold".job
          where job.queue = k.queue and job.partition_key = k.key and job.key_seq is not null and job.claim_id is null
          order by job.key_seq desc
          limit 1
        ) or (
          select true from "leasehold".dead_letter b
          where b.blocks_key and b.queue = k.queue and b.partition_key = k.key
          limit 1
        )) is true as is_taken
      from unnest(key_queues, key_keys, new_keys) as k (queue, key, is_new)
    ), input as materialized (
      select i.*, i.key is not null and i.queue = any (ordered_queues || fair_queues) as in_key,
        row_number() over (partition by i.queue, i.key order by i.place) = 1 as is_first
      from unnest(queues, kinds, payloads, priorities, max_attempts, buckets, delays_ms, more, partition_keys, ids,
        idempotency_keys, taken) with ordinality
        as i (queue, kind, payload, priority, max_attempts, bucket, delay_ms, more, key, id, idempotency_key, taken, place)
      where i.taken is not true and ordered_queues = array(
        select q.name from "leasehold".queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name)
    ), drawn as materialized (
      -- An id that was drawn before the key was locked is no place in it.
      select i.*, coalesce(i.id, i.drawn) as job_id,
        case when i.in_key then i.drawn end as key_seq
      from (
        select i.*, nextval('"leasehold".job_id') as drawn from (select * from input order by input.place) as i
      ) as i
    ), added as (
      insert into "leasehold".job (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue,
        kind, payload, partition_key, idempotency_key, metadata, key_seq, blocked, line)
      select d.job_id, coalesce((d.more ->> 'available_at')::timestamptz, at + d.delay_ms * interval '1 ms'), at,
        d.max_attempts, d.priority, d.bucket, (d.more ->> 'expires_at')::timestamptz, d.queue, d.kind, d.payload::jsonb,
        d.key, d.idempotency_key, d.more -> 'metadata', d.key_seq,
        d.in_key and (not d.is_first or k.is_taken),
        case when d.key is not null and d.queue = any (ring_queues) then d.bucket + 1 else 0 end
      from drawn d left join keys k on k.queue = d.queue and k.key = d.key
      returning job.queue, job.partition_key, job.available_at, job.blocked, job.line
    ), to_check as (
      -- What is parked behind a dead letter is moved by a check.
      insert into "leasehold".order_check (queue, key)
      select distinct a.queue, a.partition_key from added a join "leasehold".queue q on q.name = a.queue
      where a.blocked and q.on_dead_letter = 'park' and (
        select true from "leasehold".dead_letter b
        where b.blocks_key and b.queue = a.queue and b.partition_key = a.partition_key
        limit 1
      )
    ), woken as (
      -- Also for a job that is blocked: what is in front of it may have left before this commits, and then a claim has to look.
      select "leasehold".wake_lines(array_agg(a.queue), array_agg(a.line)) as done from (
        select distinct a.queue, a.line from added a where a.available_at <= at
      ) as a
    )
    select d.place, d.job_id from drawn d cross join woken;
  -- set_ordered() waits for those that have written to job, and this had not. From here on it has.
  if ordered_queues <> array(
    select q.name from "leasehold".queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name
  ) then
    raise exception 'whether a queue is ordered has changed meanwhile' using
      errcode = 'serialization_failure', hint = 'Send it again.';
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.finish(status leasehold.job_status, job_ids bigint[], worker_id uuid, reasons text[] DEFAULT NULL::text[], errors jsonb[] DEFAULT NULL::jsonb[], results jsonb[] DEFAULT NULL::jsonb[], keep_ms double precision[] DEFAULT NULL::double precision[], fence bigint DEFAULT NULL::bigint, keep_all_ms double precision DEFAULT NULL::double precision, lets_in boolean DEFAULT NULL::boolean, run_from bigint[] DEFAULT NULL::bigint[])
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
  queues text[];
  keys text[];
  seqs bigint[];
  claims bigint[];
  from_seqs bigint[];
  have_parents boolean;
begin
  if job_ids is null then
    return 0;
  end if;
  if coalesce(lets_in, finish.status <> 'completed') then
    with held as materialized (
      select j.id, j.queue, j.partition_key, j.key_seq, j.claim_id, j.parent_id from "leasehold".job j
      where j.id = any (job_ids) and (fence is null or j.claim_id = fence)
    )
    select array_agg(h.queue) filter (where h.key_seq is not null), array_agg(h.partition_key) filter (where h.key_seq is not null),
      array_agg(h.key_seq) filter (where h.key_seq is not null), array_agg(h.claim_id) filter (where h.key_seq is not null),
      array_agg(r.run_from) filter (where h.key_seq is not null), bool_or(h.parent_id is not null)
    into queues, keys, seqs, claims, from_seqs, have_parents
    from held h join unnest(job_ids, run_from) as r (id, run_from) on r.id = h.id;
    if have_parents then
      with children as materialized (
        select j.id, j.parent_id from "leasehold".job j
        where j.id = any (job_ids) and j.parent_id is not null and (fence is null or j.claim_id = fence)
      )
      select count("leasehold".notify_parent(c.parent_id, c.id, finish.status, r.result, coalesce(r.error, to_jsonb(r.reason))))
      into forgotten
      from children c join unnest(job_ids, results, reasons, errors) as r (id, result, reason, error) on r.id = c.id;
      forgotten := 0;
    end if;
    if queues is not null then
      moved := "leasehold".finish(finish.status, job_ids, finish.worker_id, reasons, errors, results, keep_ms, fence,
        keep_all_ms, lets_in => false);
      perform "leasehold".leave_keys(finish.status, queues, keys, seqs, claims, case when run_from is not null then from_seqs end);
      return moved;
    end if;
  end if;
  if finish.status = 'dead_letter' then
    with ended as (
      delete from "leasehold".job where job.id = any (job_ids) and (fence is null or job.claim_id = fence) returning *
    )
    insert into "leasehold".dead_letter (id, died_at, available_at, created_at, lease_generation, claim_id, claimed_at,
      claimed_by, attempts, max_attempts, crashes, priority, partition_bucket, salt, blocks_key, key_seq, parent_id, queue, kind,
      reason, error, payload, partition_key, idempotency_key, metadata, cancel_requested_at, cancel_reason)
    select e.id, at, e.available_at, e.created_at, e.lease_generation, e.claim_id, e.claimed_at, finish.worker_id,
      e.attempts, e.max_attempts,
      case told.reason when 'lease_expired' then least(e.crashes, 32766) + 1 else e.crashes end, e.priority,
      e.partition_bucket, e.salt, e.key_seq is not null and told.reason <> 'expired' and (
        select q.on_dead_letter <> 'skip' from "leasehold".queue q where q.name = e.queue
      ) is not false, e.key_seq, e.parent_id, e.queue, e.kind, told.reason, coalesce(told.error, (
        select a.error from "leasehold".job_attempt a where a.job_id = e.id and a.error is not null
        order by a.lease_generation desc, a.ended_at desc limit 1
      )), e.payload, e.partition_key, e.idempotency_key, e.metadata, e.cancel_requested_at, e.cancel_reason
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

CREATE OR REPLACE FUNCTION leasehold.has_begun(job_id bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (EXISTS (SELECT FROM leasehold.step s WHERE (s.job_id = has_begun.job_id)))
;

CREATE OR REPLACE FUNCTION leasehold.has_unsent(before timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
declare
  of_queue text;
begin
  for of_queue in select q.name from "leasehold".queue q where q.name like 'outbox:%' loop
    if exists (
      select from "leasehold".job j
      where j.queue = of_queue and j.key_seq is not null and (j.payload ->> 'at')::timestamptz < before
    ) or exists (
      select from "leasehold".dead_letter d where d.queue = of_queue and (d.payload ->> 'at')::timestamptz < before
    ) then
      return true;
    end if;
  end loop;
  return false;
end
$function$
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

CREATE OR REPLACE FUNCTION leasehold.leave_keys(status leasehold.job_status, queues text[], keys text[], seqs bigint[], claims bigint[], from_seqs bigint[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  place integer;
begin
  if status <> 'completed' then
    for place in 1 .. cardinality(queues) loop
      if claims[place] is not null then
        perform "leasehold".return_rest(claims[place], queues[place], keys[place], seqs[place]);
      end if;
    end loop;
  end if;
  if status = 'dead_letter' then
    perform "leasehold".park_behind(queues, keys);
  end if;
  if from_seqs is not null and (
    select true
    from (
      select k.queue, k.key, min(k.from_seq) as from_seq, max(k.seq) as seq
      from unnest(queues, keys, from_seqs, seqs) as k (queue, key, from_seq, seq)
      where k.from_seq < k.seq
      group by k.queue, k.key
    ) as k
    cross join lateral (
      select from "leasehold".job
      where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq and job.key_seq < k.seq
      limit 1
    ) ahead
    limit 1
  ) then
    raise no_data_found;
  end if;
  perform "leasehold".advance(queues, keys, from_seqs);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.line(of_queue text, key text, bucket smallint)
 RETURNS smallint
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((key IS NOT NULL) AND (EXISTS (SELECT FROM leasehold.queue q WHERE (q.by_key AND (q.ring IS NOT NULL) AND (q.name = line.of_queue))))) THEN ((bucket + 1))::smallint ELSE (0)::smallint END
;

CREATE OR REPLACE FUNCTION leasehold.listen()
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  topic text;
begin
  foreach topic in array array['wake', 'help', 'cancel', 'pause', 'signal', 'ring'] loop
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
  foreach parent in array array['archive', 'job_attempt', 'event'] loop
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

CREATE OR REPLACE FUNCTION leasehold.note_deaths(self uuid)
 RETURNS TABLE(worker_id uuid, label text, silent_ms double precision, held integer, running integer)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  now constant timestamptz := "leasehold".clock();
begin
  update "leasehold".worker set last_seen_at = now
  where id = any (array(
    select w.id from "leasehold".worker w
    where w.stopped_at is null and w.dead_at is null and w.last_seen_at > now + interval '15 s'
    for update skip locked
  ));
  return query
    with died as (
      update "leasehold".worker w set dead_at = now
      where w.id = any (array(
        select s.id from "leasehold".worker s
        where s.stopped_at is null and s.dead_at is null and s.mode <> 'by_hand' and s.id <> self
          and s.last_seen_at <= now - interval '15 s'
        for update skip locked
      ))
      returning w.id, w.label, w.last_seen_at, w.held, w.running
    ), noted as materialized (
      select d.*, "leasehold".note_fleet('died', d.id, d.label, jsonb_build_object('last_seen_at', d.last_seen_at,
        'held', d.held, 'running', d.running, 'noted_by', self)) as is_noted
      from died d
    )
    select n.id, n.label, extract(epoch from now - n.last_seen_at)::double precision * 1000, n.held, n.running
    from noted n where n.is_noted;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.note_fleet(what text, worker_id uuid, label text, detail jsonb DEFAULT NULL::jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  insert into "leasehold".fleet_event (at, what, worker_id, label, detail)
  values ("leasehold".clock(), note_fleet.what, note_fleet.worker_id, note_fleet.label, note_fleet.detail);
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.notify_parent(parent_id bigint, child_id bigint, status leasehold.job_status, result jsonb, error jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
begin
  insert into "leasehold".signal (job_id, salt, sent_at, name, payload)
  select s.job_id, s.salt, "leasehold".clock(), 'job ' || s.child_id,
    "leasehold".end_of_job(notify_parent.status, notify_parent.result, notify_parent.error)
  from "leasehold".step s where s.child_id = notify_parent.child_id and s.state = 'waiting';
  perform "leasehold".tell('signal', j.queue) from "leasehold".job j where j.id = notify_parent.parent_id;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.park_behind(queues text[], keys text[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  parked record;
  ids bigint[];
  reasons text[];
  moved integer := 0;
begin
  for parked in
    select distinct k.queue, k.key from unnest(queues, keys) as k (queue, key)
    join "leasehold".queue q on q.name = k.queue and q.ordered and q.on_dead_letter = 'park'
    where (
      select true from "leasehold".dead_letter d where d.blocks_key and d.queue = k.queue and d.partition_key = k.key limit 1
    )
  loop
    -- With the row of the key locked no redrive is under way: what it has revived must not be parked again.
    perform from "leasehold".order_key o where o.queue = parked.queue and o.key = parked.key for update skip locked;
    if found then
      select array_agg(l.id), array_agg('parked'::text) into ids, reasons
      from (
        select job.id from "leasehold".job
        where job.queue = parked.queue and job.partition_key = parked.key and job.claim_id is null and job.key_seq > (
          select d.key_seq from "leasehold".dead_letter d
          where d.blocks_key and d.queue = parked.queue and d.partition_key = parked.key
          order by d.key_seq
          limit 1
        )
        order by job.key_seq
        limit 1000
        for update skip locked
      ) as l;
      moved := moved + "leasehold".finish('dead_letter', ids, null, reasons, lets_in => false);
      -- More than a thousand, one that another transaction has locked, or one that is left of a claim that was swept in part.
      continue when not exists (
        select from "leasehold".job
        where job.queue = parked.queue and job.partition_key = parked.key and job.key_seq > (
          select d.key_seq from "leasehold".dead_letter d
          where d.blocks_key and d.queue = parked.queue and d.partition_key = parked.key
          order by d.key_seq
          limit 1
        )
      );
    end if;
    insert into "leasehold".order_check (queue, key) values (parked.queue, parked.key);
  end loop;
  return moved;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.pause_run(job_id bigint, pauses boolean, by_operator text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
declare
  run record;
  at constant timestamptz := "leasehold".clock();
begin
  select j.claim_id, j.queue, coalesce(j.waiting_for = '{}', false) as is_paused into run
  from "leasehold".job j where j.id = pause_run.job_id for update;
  if not found then
    return 'not_found';
  end if;
  if run.is_paused = pauses then
    return 'unchanged';
  end if;
  if run.claim_id is not null then
    update "leasehold".job set waiting_for = case when pauses then '{}'::text[] end where id = pause_run.job_id;
  elsif pauses then
    update "leasehold".job set waiting_for = '{}', available_at = at + interval '100 years' where id = pause_run.job_id;
  else
    update "leasehold".job set waiting_for = null, available_at = at where id = pause_run.job_id;
    perform "leasehold".wake(array[run.queue]);
  end if;
  insert into "leasehold".operator_action (at, action, by, outcome, job_id)
  values (at, case when pauses then 'pause' else 'resume' end, by_operator, case when pauses then 'paused' else 'resumed' end,
    pause_run.job_id);
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.prune_runs(after_id bigint, at_most integer)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  looked bigint[];
  gone bigint[];
begin
  looked := array(
    select distinct l.job_id from (
      (select s.job_id from "leasehold".step s where s.job_id > after_id order by s.job_id limit at_most)
      union all
      (select s.job_id from "leasehold".signal s where s.job_id > after_id order by s.job_id limit at_most)
    ) as l order by l.job_id limit at_most
  );
  if looked = '{}' then
    return null;
  end if;
  gone := array(
    select l.id from unnest(looked) as l (id)
    where (select true from "leasehold".job j where j.id = l.id) is null
      and (select true from "leasehold".dead_letter d where d.id = l.id) is null
      and (select true from "leasehold".idempotency_key k where k.job_id = l.id limit 1) is null
  );
  delete from "leasehold".step where job_id = any (gone);
  delete from "leasehold".signal where job_id = any (gone);
  return looked[cardinality(looked)];
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.publish(event jsonb)
 RETURNS uuid
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  known constant text[] := array['id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema', 'partitionkey',
    'data', 'data_base64', 'specversion'];
  id constant uuid := coalesce((event ->> 'id')::uuid, gen_random_uuid());
  key constant text := event ->> 'partitionkey';
  extra constant jsonb := event - known;
  bytes bytea;
  wrong text;
begin
  wrong := case
    when event is null or jsonb_typeof(event) <> 'object' then 'an event is an object'
    when octet_length(event ->> 'type') not between 1 and 200 or event ->> 'type' is null then 'type holds 1 to 200 bytes'
    when octet_length(event ->> 'source') not between 1 and 1000 or event ->> 'source' is null then 'source holds 1 to 1000 bytes'
    when octet_length(key) not between 1 and 1000 then 'partitionkey holds 1 to 1000 bytes'
    when octet_length(event ->> 'subject') not between 1 and 1000 then 'subject holds 1 to 1000 bytes'
    when octet_length(event ->> 'datacontenttype') not between 1 and 200 then 'datacontenttype holds 1 to 200 bytes'
    when octet_length(event ->> 'dataschema') not between 1 and 1000 then 'dataschema holds 1 to 1000 bytes'
    when event ->> 'specversion' <> '1.0' then 'specversion is 1.0'
    when event ? 'data' and event ? 'data_base64' then 'data and data_base64 are mutually exclusive'
    when octet_length(extra::text) > 16384 then 'extension attributes hold at most 16384 bytes'
    when exists (
      select from jsonb_each(extra) as e (name, value)
      where e.name !~ '^[a-z0-9]{1,20}$' or jsonb_typeof(e.value) not in ('string', 'number', 'boolean')
    ) then 'names of extension attributes are 1 to 20 of a-z and 0-9, and values are strings, numbers or booleans'
  end;
  if wrong is not null then
    raise exception '%', wrong using errcode = 'invalid_parameter_value',
      hint = 'Pass a CloudEvent in the JSON format, such as {"type": "order.paid", "source": "/orders", "data": {"id": 7}}.';
  end if;
  bytes := case when event ? 'data_base64' then decode(event ->> 'data_base64', 'base64')
    else convert_to((event -> 'data')::text, 'UTF8') end;
  if length(bytes) > 1048576 then
    raise exception 'data is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store it elsewhere and publish its address.';
  end if;
  perform "leasehold".publish_many(array[id], array[(event ->> 'time')::timestamptz], array[event ->> 'source'],
    array[event ->> 'type'], array[event ->> 'subject'], array[key],
    array[coalesce(event ->> 'datacontenttype', case when event ? 'data' then 'application/json' end)],
    array[event ->> 'dataschema'], array[nullif(extra, '{}')], array[encode(bytes, 'hex')],
    array[coalesce(key, id::text)], array["leasehold".bucket(coalesce(key, id::text))]);
  return id;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.publish_many(ids uuid[], times timestamp with time zone[], sources text[], types text[], subjects text[], event_keys text[], content_types text[], schemas text[], extensions jsonb[], data text[], keys text[], buckets smallint[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
declare
  at constant timestamptz := "leasehold".clock();
  jobs integer := 0;
  place record;
  stored bigint[];
begin
  for place in
    select d.name, d.max_attempts, jsonb_agg(jsonb_build_object('id', e.id, 'at', at) order by e.nth)::text as inputs,
      jsonb_agg(e.key order by e.nth)::text as keys, array_agg(e.bucket order by e.nth) as buckets
    from "leasehold".destination d
    cross join unnest(ids, publish_many.types, publish_many.keys, publish_many.buckets) with ordinality as e (id, type, key, bucket, nth)
    where "leasehold".takes(d.types, e.type)
    group by d.name, d.max_attempts
    order by d.name
  loop
    stored := "leasehold".enqueue_alike_in_order('outbox:' || place.name, 'outbox:' || place.name, place.inputs, 5::smallint,
      place.max_attempts, place.buckets, 0, place.keys);
    if stored is null then
      raise exception 'queue "outbox:%" is not ordered', place.name using
        errcode = 'LH003', hint = 'configure() the destination again.';
    end if;
    jobs := jobs + cardinality(stored);
  end loop;
  -- After the jobs: their keys are locked now, until this commits.
  insert into "leasehold".event (id, published_at, time, source, type, subject, key, data_content_type, data_schema,
    extensions, data)
  select e.id, at, coalesce(e.time, at), e.source, e.type, e.subject, e.key, e.content_type, e.data_schema, e.extensions,
    decode(e.data, 'hex')
  from unnest(ids, times, sources, publish_many.types, subjects, event_keys, content_types, schemas, publish_many.extensions,
    publish_many.data) as e (id, time, source, type, subject, key, content_type, data_schema, extensions, data);
  return jobs;
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
    (select max(e.job_id) from "leasehold".effect e), (select max(s.job_id) from "leasehold".step s)
  ) into highest;
  if highest > (select s.last_value from "leasehold".job_id s) then
    return setval('"leasehold".job_id', highest);
  end if;
  return 0;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.receive(source text, event_id text, body_hash bytea, keep_ms double precision, wait_ms integer)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '0'
AS $function$
declare
  known bytea;
begin
  for attempt in 1 .. 2 loop
    select i.body_hash into known from "leasehold".inbox i
    where i.source = receive.source and i.event_id = receive.event_id;
    if found then
      if known <> receive.body_hash then
        return 'conflict';
      end if;
      update "leasehold".inbox set duplicates = duplicates + 1
      where ctid = any (array(
        select i.ctid from "leasehold".inbox i
        where i.source = receive.source and i.event_id = receive.event_id
        for update skip locked
      ));
      return 'duplicate';
    end if;
    perform set_config('lock_timeout', receive.wait_ms::text, true);
    insert into "leasehold".inbox (source, event_id, received_at, forget_at, body_hash)
    values (receive.source, receive.event_id, "leasehold".clock(), "leasehold".clock() + receive.keep_ms * interval '1 ms',
      receive.body_hash)
    on conflict on constraint inbox_pkey do nothing;
    if found then
      return 'new';
    end if;
  end loop;
  -- It was there at the insert, and was pruned before the second look.
  return 'duplicate';
end $function$
;

CREATE OR REPLACE FUNCTION leasehold.redrive_in_order(ids bigint[])
 RETURNS TABLE(job_id bigint, queue text, kind text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  queues text[];
  keys text[];
begin
  with letters as materialized (
    select d.queue, d.partition_key as key from "leasehold".dead_letter d where d.id = any (ids)
  )
  select array_agg(k.queue), array_agg(k.key) into queues, keys
  from (select distinct l.queue, l.key from letters l order by 1, 2) as k;
  if queues is null then
    return;
  end if;
  insert into "leasehold".order_key (queue, key)
  select k.queue, k.key from unnest(queues, keys) as k (queue, key)
  on conflict (queue, key) do update set reused = true;
  return query
    with picked as materialized (
      select d.id from "leasehold".dead_letter d where d.id = any (ids || array(
        select parked.id from unnest(queues, keys) as k (queue, key)
        cross join lateral (
          select b.id from "leasehold".dead_letter b
          where b.blocks_key and b.queue = k.queue and b.partition_key = k.key and b.reason = 'parked'
          order by b.key_seq
          limit 10000
        ) parked
      ))
      for update skip locked
    ), revived as (
      delete from "leasehold".dead_letter d where d.id = any (array(select picked.id from picked)) returning *
    ), added as (
      insert into "leasehold".job (id, available_at, created_at, lease_generation, max_attempts, crashes, priority,
        partition_bucket, line, salt, blocked, parent_id, queue, kind, payload, partition_key, idempotency_key, metadata, key_seq)
      select r.id, "leasehold".clock(), r.created_at, r.lease_generation, r.max_attempts,
        case r.reason when 'lease_expired' then greatest(r.crashes, 2) else 0 end, r.priority, r.partition_bucket,
        "leasehold".line(r.queue, r.partition_key, r.partition_bucket), r.salt,
        true, r.parent_id, r.queue, r.kind, r.payload, r.partition_key, r.idempotency_key, r.metadata,
        case when r.blocks_key then r.key_seq else nextval('"leasehold".job_id') end
      from (select * from revived order by revived.key_seq) as r
      returning job.id, job.queue, job.kind
    )
    select added.id, added.queue, added.kind from added;
  perform "leasehold".advance(queues, keys);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.register_worker(worker_id uuid, label text, version text, mode text, host text, pid integer, kinds text[], queues text[], memory_limit_bytes bigint, drains boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  now constant timestamptz := "leasehold".clock();
  drains_since timestamptz := case when drains then now end;
  was record;
begin
  loop
    insert into "leasehold".worker (id, label, version, mode, host, pid, kinds, queues, started_at, last_seen_at, draining_at,
      memory_limit_bytes)
    values (worker_id, register_worker.label, register_worker.version, register_worker.mode, register_worker.host,
      register_worker.pid, register_worker.kinds, register_worker.queues, now, now, drains_since,
      register_worker.memory_limit_bytes)
    on conflict (id) do nothing;
    if found then
      if register_worker.mode = 'worker' then
        perform "leasehold".note_fleet('joined', worker_id, register_worker.label, jsonb_build_object(
          'version', register_worker.version, 'host', register_worker.host, 'pid', register_worker.pid,
          'kinds', register_worker.kinds, 'queues', register_worker.queues));
      end if;
      return 'joined';
    end if;
    select w.dead_at, w.draining_at, w.last_seen_at into was from "leasehold".worker w where w.id = worker_id for update;
    continue when not found; -- pruned between the two statements
    drains_since := coalesce(was.draining_at, drains_since);
    update "leasehold".worker
    set last_seen_at = now, dead_at = null, stopped_at = null, draining_at = drains_since,
      kinds = register_worker.kinds, queues = register_worker.queues
    where id = worker_id;
    if was.dead_at is null then
      return 'known';
    end if;
    perform "leasehold".note_fleet('returned', worker_id, register_worker.label, jsonb_build_object(
      'dead_at', was.dead_at, 'silent_ms', round(extract(epoch from now - was.last_seen_at) * 1000)));
    return 'returned';
  end loop;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.replay(destination text, since timestamp with time zone, until timestamp with time zone, only_types text[], only_keys text[], after_place bigint, most integer, OUT replayed integer, OUT last_place bigint, OUT looked integer)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
declare
  to_where record;
  found_events record;
  stored bigint[];
begin
  select d.name, d.types, d.max_attempts into to_where from "leasehold".destination d where d.name = destination;
  if not found then
    raise exception 'there is no destination "%"', destination using errcode = 'LH005', hint = 'configure() it first.';
  end if;
  select count(*) as looked, count(*) filter (where e.fits) as fits, max(e.place) as last_place,
    jsonb_agg(jsonb_build_object('id', e.id, 'at', e.published_at) order by e.place) filter (where e.fits) as inputs,
    jsonb_agg(e.key order by e.place) filter (where e.fits) as keys,
    array_agg("leasehold".bucket(e.key) order by e.place) filter (where e.fits) as buckets
  into found_events
  from (
    select v.id, v.published_at, v.place, coalesce(v.key, v.id::text) as key,
      "leasehold".takes(to_where.types, v.type) and "leasehold".takes(only_types, v.type)
        and (only_keys is null or v.key = any (only_keys)) as fits
    from "leasehold".event v
    where v.published_at >= since and v.published_at < until and v.place > after_place
    order by v.place
    limit most
  ) as e;
  looked := found_events.looked;
  last_place := found_events.last_place;
  replayed := found_events.fits;
  if replayed > 0 then
    stored := "leasehold".enqueue_alike_in_order('outbox:' || destination, 'outbox:' || destination, found_events.inputs::text,
      5::smallint, to_where.max_attempts, found_events.buckets, 0, found_events.keys::text);
    if stored is null then
      raise exception 'queue "outbox:%" is not ordered', destination using
        errcode = 'LH003', hint = 'configure() the destination again.';
    end if;
  end if;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.requeue(job_id bigint, held_by bigint, next_at timestamp with time zone, returns_attempt boolean, clears_crashes boolean, waits_for text[] DEFAULT NULL::text[])
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  returned record;
  far constant timestamptz := "leasehold".clock() + interval '100 years';
begin
  update "leasehold".job
  set claim_id = null, claimed_at = null, available_at = case when job.waiting_for = '{}' then far else next_at end,
    waiting_for = case when job.waiting_for = '{}' then job.waiting_for else waits_for end,
    attempts = case when returns_attempt then job.attempts - 1 else job.attempts end,
    crashes = case when clears_crashes then 0 else job.crashes end,
    expires_at = case when next_at = job.available_at then job.expires_at end,
    blocked = job.key_seq is not null and exists (
      select from "leasehold".queue q where q.name = job.queue and q.ordered
    ) and (exists (
      select from "leasehold".job ahead
      where ahead.queue = job.queue and ahead.partition_key = job.partition_key and ahead.key_seq < job.key_seq
    ) or (
      select true from "leasehold".dead_letter d
      where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq < job.key_seq
      limit 1
    ) is true)
  where job.id = job_id and job.claim_id = held_by
  returning job.queue, job.partition_key, job.key_seq into returned;
  if returned.key_seq is not null then
    perform "leasehold".return_rest(held_by, returned.queue, returned.partition_key, returned.key_seq);
  end if;
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
      crashes, priority, partition_bucket, salt, queue, kind, reason, payload)
    select -n, 'infinity', 'infinity', 'infinity', 0, 0, 1, 0, 0, 0, 0, '', '', 'fatal', to_jsonb(wide)
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
  if pg_relation_size('"leasehold".step') < 256 * 8192 then
    insert into "leasehold".step (job_id, recorded_at, started_at, lease_generation, worker_id, place, nth, salt, attempt, state, type,
      name, result)
    select -n, 'epoch', 'epoch', 0, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 'recorded', '', '', to_jsonb(wide)
    from generate_series(1, 1024) n;
    delete from "leasehold".step where job_id < 0;
  end if;
  if pg_relation_size('"leasehold".signal') < 256 * 8192 then
    insert into "leasehold".signal (id, job_id, sent_at, salt, noticed, name, payload)
    select n, -n, 'epoch', 0, true, '', to_jsonb(wide) from generate_series(1, 1024) n;
    delete from "leasehold".signal where job_id < 0;
  end if;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.return_rest(under_claim bigint, of_queue text, of_key text, behind bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  rest bigint[];
  to_cancel bigint[];
  reasons text[];
begin
  if not exists (select from "leasehold".queue q where q.name = of_queue and q.ordered) then
    return;
  end if;
  -- Mostly there is none, which the next job of the key shows.
  if (
    select j.claim_id from "leasehold".job j
    where j.queue = of_queue and j.partition_key = of_key and j.key_seq > behind
    order by j.key_seq
    limit 1
  ) is distinct from under_claim then
    return;
  end if;
  -- Locked by their places: two that return the rest of one run wait for each other, and do not deadlock.
  select array_agg(l.id), array_agg(l.id) filter (where l.cancel_requested_at is not null),
    array_agg(l.cancel_reason) filter (where l.cancel_requested_at is not null)
  into rest, to_cancel, reasons
  from (
    select job.id, job.cancel_requested_at, job.cancel_reason from "leasehold".job
    where job.id = any ((select c.job_ids from "leasehold".claim c where c.id = under_claim)::bigint[])
      and job.claim_id = under_claim and job.queue = of_queue and job.partition_key = of_key and job.key_seq > behind
    order by job.key_seq
    for update
  ) as l;
  update "leasehold".job set claim_id = null, claimed_at = null, attempts = job.attempts - 1, blocked = true
  where job.id = any (rest);
  perform "leasehold".finish('cancelled', to_cancel, null, reasons, lets_in => false);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.rewind(job_id bigint, step_name text, of_nth integer, is_compensation boolean)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  run record;
  from_place integer;
begin
  select j.salt, j.claim_id, j.queue, true as is_pending into run from "leasehold".job j where j.id = rewind.job_id for update;
  if not found then
    select d.salt, null::bigint as claim_id, d.queue, false as is_pending into run
    from "leasehold".dead_letter d where d.id = rewind.job_id for update;
    if not found then
      return 'not_found';
    end if;
  end if;
  if run.claim_id is not null then
    return 'processing';
  end if;
  -- A step, before a wait of the same name.
  select s.place into from_place from "leasehold".step s
  where s.job_id = rewind.job_id and s.salt = run.salt and s.name = step_name and s.nth = of_nth
    and (s.type = 'compensation') = is_compensation
  order by s.type <> 'step', s.place limit 1;
  if not found then
    return 'no_such_step';
  end if;
  update "leasehold".signal set consumed = false
  where signal.job_id = rewind.job_id and signal.id = any (array(
    select s.signal_id from "leasehold".step s where s.job_id = rewind.job_id and s.place >= from_place and s.signal_id is not null
  ));
  -- The ends of jobs that it starts or joins again: it hears of them anew, and how they ended may have changed.
  delete from "leasehold".signal
  where not is_compensation and signal.job_id = rewind.job_id and signal.name = any (array(
    select 'job ' || s.child_id from "leasehold".step s where s.job_id = rewind.job_id and s.child_id is not null
    group by s.child_id having min(s.place) >= from_place
  ));
  delete from "leasehold".step s where s.job_id = rewind.job_id and s.place >= from_place
    and (not is_compensation or (s.type = 'compensation' and s.name = step_name and s.nth = of_nth));
  if run.is_pending then
    update "leasehold".job set available_at = "leasehold".clock(), waiting_for = null where job.id = rewind.job_id;
    perform "leasehold".wake(array[run.queue]);
  elsif not is_compensation then
    update "leasehold".dead_letter set cancel_requested_at = null, cancel_reason = null where dead_letter.id = rewind.job_id;
  end if;
  return 'done';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.ring_beat(of_worker uuid, of_label text, of_queues text[], of_weight real, wants smallint, lease_ms double precision, has bigint, has_salt integer, leaves boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '2s'
AS $function$
declare
  at constant timestamptz := "leasehold".clock();
  strategies constant jsonb := "leasehold".strategies_now();
  on_ring constant boolean := exists (select from jsonb_each_text(strategies) as q where q.key = any (of_queues) and q.value <> 'off');
  mine smallint;
  had bigint;
  latest "leasehold".epoch;
  acknowledges boolean := false;
  vacated record;
begin
  if not on_ring and not exists (select from "leasehold".seat s where s.worker_id = of_worker) then
    if strategies ?| of_queues then
      return jsonb_build_object('strategies', strategies);
    end if;
    return null;
  end if;
  if on_ring and not leaves then
    select s.number, s.epoch into mine, had from "leasehold".seat s
    where s.worker_id = of_worker and s.queues = of_queues and s.weight = of_weight;
    if had < has and exists (select from "leasehold".epoch e where e.number = has and e.salt = has_salt) then
      -- No epoch begins until this is committed. Otherwise a gainer in that epoch could read what the seat had acknowledged before,
      -- while the seat's worker adds what it gained.
      lock table "leasehold".epoch in row exclusive mode;
      had := has;
      acknowledges := true;
      perform "leasehold".tell('ring', 'acknowledged');
    end if;
    update "leasehold".seat s set expires_at = at + lease_ms * interval '1 ms', epoch = had where s.number = mine and s.worker_id = of_worker;
    if not found then
      mine := null;
    end if;
  end if;
  select e.* into latest from "leasehold".epoch e order by e.number desc limit 1;
  if (mine is null and (wants is null or not exists (
      select from "leasehold".seat s where s.number = wants and s.worker_id <> of_worker and s.expires_at > at
    )))
    -- Two that acknowledge at a time would wait for each other. The next beat changes what is to be changed.
    or (not acknowledges and (exists (select from "leasehold".seat s where s.expires_at <= at)
      or latest.strategies is distinct from strategies or latest.seats is distinct from "leasehold".seats_now())) then
    lock table "leasehold".epoch in share row exclusive mode;
    for vacated in
      with gone as (
        delete from "leasehold".seat where number = any (array(
          select s.number from "leasehold".seat s where s.expires_at <= "leasehold".clock() for update skip locked
        ))
        returning number, worker_id, label
      )
      select * from gone
    loop
      perform "leasehold".note_fleet('lost', vacated.worker_id, vacated.label, jsonb_build_object('seat', vacated.number));
    end loop;
    if leaves or not on_ring then
      delete from "leasehold".seat s where s.worker_id = of_worker;
      mine := null;
    else
      select s.number into mine from "leasehold".seat s where s.worker_id = of_worker;
      if mine is null then
        -- The one it wants, or the first that is free: a worker that comes back takes the place of the one that left.
        select n.number into mine from generate_series(1, 1024) as n (number)
        where (wants is null or n.number = wants) and not exists (select from "leasehold".seat s where s.number = n.number)
        order by n.number limit 1;
        insert into "leasehold".seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
        select mine, of_worker, of_label, of_weight, of_queues, 0, at, at + lease_ms * interval '1 ms' where mine is not null;
      else
        update "leasehold".seat s set weight = of_weight, queues = of_queues where s.worker_id = of_worker;
      end if;
    end if;
    select e.* into latest from "leasehold".epoch e order by e.number desc limit 1;
    if latest.strategies is distinct from strategies or latest.seats is distinct from "leasehold".seats_now() then
      insert into "leasehold".epoch (number, began_at, seats, strategies)
      -- No seat has acknowledged it, also if rows of epochs were deleted by hand.
      select 1 + greatest(latest.number, max(s.epoch), 0), "leasehold".clock(), "leasehold".seats_now(), strategies from "leasehold".seat s;
      select e.* into latest from "leasehold".epoch e order by e.number desc limit 1;
      delete from "leasehold".epoch e where e.number < latest.number - 100;
      perform "leasehold".note_fleet('ring', of_worker, of_label,
        jsonb_build_object('epoch', latest.number, 'seats', latest.seats, 'strategies', strategies));
      perform "leasehold".tell('ring', 'changed');
    end if;
    -- The worker of a new seat has claimed nothing yet, so it has nothing to hand over.
    update "leasehold".seat s set epoch = latest.number where s.worker_id = of_worker and s.epoch = 0;
  end if;
  -- No lease is that long: the clock was set back. The seat of a worker that lives is renewed before this is over. Nothing is waited for
  -- from here on, so the rows of others may be locked.
  update "leasehold".seat s set expires_at = at + interval '10 s' where s.number = any (array(
    select f.number from "leasehold".seat f where f.expires_at > at + interval '15 s' for update skip locked
  ));
  return jsonb_build_object('seat', mine, 'epoch', latest.number, 'salt', latest.salt, 'strategies', strategies,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('seat', s.number, 'epoch', s.epoch)), '[]')
      from "leasehold".seat s where s.worker_id <> of_worker and s.epoch < latest.number
    ),
    'epochs', (
      select jsonb_object_agg(e.number, jsonb_build_object('seats', e.seats, 'strategies', e.strategies))
      from "leasehold".epoch e
      where e.number = latest.number or e.number in (select s.epoch from "leasehold".seat s)
    ));
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.seats_now()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce(jsonb_agg(jsonb_build_object('number', s.number, 'weight', s.weight, 'queues', to_jsonb(s.queues)) order by s.number), '[]')
  from "leasehold".seat s
$function$
;

CREATE OR REPLACE FUNCTION leasehold.set_ordered(names text[], ordered boolean[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET lock_timeout TO '2s'
AS $function$
#variable_conflict use_column
declare
  changed text[];
  used text;
begin
  select array_agg(i.name order by i.name) into changed
  from unnest(names, ordered) as i (name, ordered)
  where i.ordered is distinct from coalesce((select q.ordered from "leasehold".queue q where q.name = i.name), false);
  if changed is null then
    return;
  end if;
  lock table "leasehold".job in share row exclusive mode;
  select min(c.name) into used from unnest(changed) as c (name)
  where exists (select from "leasehold".job j where j.queue = c.name and not j.blocked and j.crashes = 0)
    or exists (select from "leasehold".job j where j.queue = c.name and not j.blocked and j.crashes > 0)
    or exists (select from "leasehold".job j where j.queue = c.name and j.key_seq is not null);
  if used is not null then
    raise exception 'queue "%" has unfinished jobs, so whether it is ordered cannot change', used using
      errcode = 'LH004', hint = 'Let workers finish them, or use another queue.';
  end if;
  insert into "leasehold".queue (name, ordered, fair)
  select i.name, i.ordered, false from unnest(names, ordered) as i (name, ordered) where i.name = any (changed) order by i.name
  on conflict (name) do update set ordered = excluded.ordered, fair = excluded.fair;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.set_paused(of_queue text, of_kind text, paused_by text, paused boolean)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
begin
  lock table "leasehold".pause in share row exclusive mode;
  if paused then
    insert into "leasehold".pause (queue, kind, at, by) select of_queue, of_kind, "leasehold".clock(), paused_by
    where not exists (select from "leasehold".pause p where p.queue = of_queue or p.kind = of_kind);
  else
    delete from "leasehold".pause p where p.queue = of_queue or p.kind = of_kind;
  end if;
  return found;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.signal(workflow text, run_id text, name text, payload jsonb DEFAULT NULL::jsonb, idempotency_key text DEFAULT NULL::text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  run_job bigint;
  run_salt integer;
begin
  if octet_length(signal.name) not between 1 and 200 or signal.name is null or octet_length(signal.idempotency_key) not between 1 and 1000 then
    raise exception 'name holds 1 to 200 bytes, idempotency_key 1 to 1000' using errcode = 'invalid_parameter_value';
  end if;
  if signal.name ~ '^job [0-9]' then
    raise exception 'names such as "job 17" are those of jobs that have ended' using errcode = 'invalid_parameter_value';
  end if;
  -- One after the other: a join of tables that were vacuumed while empty may walk a whole index (decisions/0004).
  select k.job_id into run_job from "leasehold".idempotency_key k where k.queue = signal.workflow and k.key = signal.run_id;
  if not found then
    return 'not_found';
  end if;
  select j.salt into run_salt from "leasehold".job j where j.id = run_job;
  if not found then
    select d.salt into run_salt from "leasehold".dead_letter d where d.id = run_job;
    if not found then
      return 'finished';
    end if;
  end if;
  insert into "leasehold".signal (job_id, salt, sent_at, name, payload, idempotency_key)
  values (run_job, run_salt, "leasehold".clock(), signal.name, signal.payload, signal.idempotency_key)
  on conflict do nothing;
  if not found then
    return 'duplicate';
  end if;
  perform "leasehold".tell('signal', signal.workflow);
  return 'sent';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.start_child(run_id bigint, held_by bigint, at_place integer, after_place integer, step_name text, of_nth integer, kind text, payload jsonb, options jsonb, by_worker uuid)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  run record;
  child bigint;
  found_as text;
  existing record;
begin
  select j.salt, j.lease_generation, j.idempotency_key || '/' as own_keys into run from "leasehold".job j where j.id = run_id and j.claim_id = held_by for share;
  if not found or (after_place > 0 and not exists (
    select from "leasehold".step s where s.job_id = run_id and s.place = after_place and s.salt = run.salt
  )) then
    return null;
  end if;
  select s.child_id into child from "leasehold".step s where s.job_id = run_id and s.place = at_place and s.salt = run.salt;
  if found then
    return child; -- The reply was lost, and it is asked again.
  end if;
  select e.job_id, e.outcome into child, found_as
  from "leasehold".enqueue(start_child.kind, start_child.payload, start_child.options || '{"on_conflict": "return"}') e;
  if found_as = 'conflict' then
    return -child;
  end if;
  select j.claim_id, j.parent_id, j.kind into existing from "leasehold".job j where j.id = child for update;
  if found and existing.claim_id is not null and existing.parent_id is null and existing.kind not like '%@%' then
    return 0;
  elsif found then
    update "leasehold".job set parent_id = run_id where job.id = child;
  else
    insert into "leasehold".signal (job_id, salt, sent_at, name, payload)
    select run_id, run.salt, "leasehold".clock(), 'job ' || child, "leasehold".end_of_job(ended.status, ended.result, ended.error)
    from (
      select a.status, a.result, to_jsonb(a.cancel_reason) as error from "leasehold".archive a where a.id = child
      union all
      select 'dead_letter', null, d.error from "leasehold".dead_letter d where d.id = child
    ) as ended;
  end if;
  insert into "leasehold".step (job_id, recorded_at, started_at, lease_generation, child_id, worker_id, place, nth, salt, attempt, joined,
    state, type, name)
  values (run_id, "leasehold".clock(), "leasehold".clock(), run.lease_generation, child, by_worker, at_place, of_nth, run.salt, 1,
    found_as = 'existing' and starts_with(options ->> 'idempotency_key', run.own_keys) is not true, 'waiting',
    'job', step_name);
  return child;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.strategies_now()
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  select coalesce(jsonb_object_agg(q.name, q.ring), '{}') from "leasehold".queue q where q.by_key and q.ring is not null
$function$
;

CREATE OR REPLACE FUNCTION leasehold.take_turns(claimed bigint[], ordered_queues text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  queues text[];
  keys text[];
begin
  with held as materialized (
    select j.queue, j.partition_key, j.key_seq from "leasehold".job j where j.id = any (claimed)
  )
  select array_agg(h.queue), array_agg(h.partition_key) into queues, keys
  from held h where h.key_seq is not null and h.queue <> all (ordered_queues);
  perform "leasehold".advance(queues, keys);
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.takes(types text[], type text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((types IS NULL) OR (EXISTS (SELECT FROM unnest(takes.types) t(name) WHERE ((t.name = takes.type) OR (("right"(t.name, 1) = '*'::text) AND starts_with(takes.type, "left"(t.name, '-1'::integer)))))))
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

CREATE OR REPLACE FUNCTION leasehold.terminate(job_id bigint, reason text, by_operator text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
begin
  perform from "leasehold".job j where j.id = terminate.job_id for update;
  if not found then
    return 'not_found';
  end if;
  perform "leasehold".finish('cancelled', array[terminate.job_id], null, array[reason]);
  insert into "leasehold".operator_action (at, action, by, outcome, job_id, detail)
  values ("leasehold".clock(), 'terminate', by_operator, 'cancelled', terminate.job_id, reason);
  return 'ended';
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.unblock(of_queue text, of_key text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
declare
  cleared integer;
begin
  update "leasehold".dead_letter d set blocks_key = false
  where d.blocks_key and d.queue = of_queue and d.partition_key = of_key;
  get diagnostics cleared = row_count;
  perform "leasehold".advance(array[of_queue], array[of_key]);
  return cleared;
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

CREATE OR REPLACE FUNCTION leasehold.wake_lines(queues text[], lines integer[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
declare
  woken record;
begin
  for woken in
    select i.queue, array_agg(distinct i.line) as lines from unnest(queues, lines) as i (queue, line) group by i.queue
  loop
    if woken.lines = '{0}' or cardinality(woken.lines) > 200 then
      perform "leasehold".wake(array[woken.queue]);
    elsif (select q.wakes from "leasehold".queue q where q.name = woken.queue) is not false then
      perform "leasehold".tell('wake', woken.queue || e'\n' || array_to_string(woken.lines, ','));
    end if;
  end loop;
  return true;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.wake_signalled(after_id bigint, at_most integer)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
declare
  signals bigint[];
  jobs bigint[];
  names text[];
  free bigint[];
  queues text[];
begin
  select array_agg(s.id order by s.id), array_agg(s.job_id order by s.id), array_agg(s.name order by s.id) into signals, jobs, names
  from (
    select s.id, s.job_id, s.name from "leasehold".signal s where not s.noticed and s.id > after_id order by s.id limit at_most
  ) as s;
  if signals is null then
    return null;
  end if;
  select array_agg(l.id) into free
  from (select j.id from "leasehold".job j where j.id = any (jobs) and j.claim_id is null for update skip locked) as l;
  with woken as (
    update "leasehold".job
    set available_at = "leasehold".clock(), waiting_for = null
    where job.id = any (free) and (
      select true from unnest(jobs, names) as s (job_id, name) where s.job_id = job.id and s.name = any (job.waiting_for) limit 1
    )
    returning job.queue
  )
  select array_agg(distinct woken.queue) into queues from woken;
  free := free || array(
    select distinct l.id from unnest(jobs) as l (id) where (select true from "leasehold".job j where j.id = l.id) is null
  );
  -- One a call: a list would be joined with the table (decisions/0004).
  for n in 1 .. cardinality(signals) loop
    if jobs[n] = any (free) then
      update "leasehold".signal s set noticed = true where s.job_id = jobs[n] and s.id = signals[n];
    end if;
  end loop;
  if queues is not null then
    perform "leasehold".wake(queues);
  end if;
  return case when cardinality(signals) = at_most then signals[at_most] end;
end
$function$
;

CREATE OR REPLACE FUNCTION leasehold.with_runs(heads bigint[], kinds text[], run_length integer, max_jobs integer, ordered_queues text[], OUT ids bigint[], OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_sort TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
  at constant timestamptz := "leasehold".clock();
  share constant integer := greatest(1, max_jobs / cardinality(heads));
  run_heads bigint[];
  followers bigint[];
  locked bigint[];
begin
  -- Head by head until there are a thousand jobs, or so many inputs that they should be rendered to know their size.
  select array_agg(f.head order by f.place, f.step), array_agg(f.id order by f.place, f.step),
    bool_or(f.nth = share and f.is_fair)
  into run_heads, followers, more
  from (
    select f.*, sum(f.size) over (order by f.place, f.step) as bytes, count(*) over (order by f.place, f.step) as jobs
    from (
      select h.place, h.id as head, f.id, f.step, f.size, head.is_fair, bool_and(f.can_run) over (
        partition by h.place order by f.step) as runs, row_number() over (partition by h.place order by f.step) as nth
      from unnest(heads) with ordinality as h (id, place)
      cross join lateral (
        select job.queue, job.partition_key, job.key_seq, job.queue <> all (ordered_queues) as is_fair, (
            select d.key_seq from "leasehold".dead_letter d
            where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq > job.key_seq
            order by d.key_seq
            limit 1
          ) as blocked_from
        from "leasehold".job where job.id = h.id limit 1
      ) head
      cross join lateral (
        select job.id, job.key_seq as step, case
            when pg_column_size(job.payload) < 1500 or pg_column_compression(job.payload) is null
            then pg_column_size(job.payload) else 100 * pg_column_size(job.payload)
          end as size,
          -- The walk has judged the head.
          job.key_seq = head.key_seq or job.claim_id is null and job.crashes = 0 and job.available_at <= at
            and job.cancel_requested_at is null and (job.expires_at is null or job.expires_at > at)
            and job.kind = any (kinds) and (head.blocked_from is null or job.key_seq < head.blocked_from) as can_run
        from "leasehold".job
        where job.queue = head.queue and job.partition_key = head.partition_key and job.key_seq >= head.key_seq
        order by job.key_seq
        limit case when head.is_fair then share else run_length end
      ) f
    ) as f
    where f.runs
  ) as f
  where f.jobs <= 1000 and (f.bytes <= 16777216 or f.id = heads[1]);
  select array_agg(l.id) into locked
  from (
    select job.id from "leasehold".job where job.id = any (followers) and job.claim_id is null and job.crashes = 0
    for update skip locked
  ) as l;
  if cardinality(locked) is distinct from cardinality(followers) then
    followers := array(
      select f.id from (
        select f.id, bool_and(f.id = any (locked)) over (partition by f.head order by f.place) as holds
        from unnest(followers, run_heads) with ordinality as f (id, head, place)
      ) as f where f.holds
    );
  end if;
  -- Heads of queues that are neither.
  ids := followers || array(
    select h.id from unnest(heads) as h (id) where (select job.key_seq is null from "leasehold".job where job.id = h.id)
  );
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

create view leasehold.blocked_keys as
 SELECT k.queue,
    k.key,
    waiting.jobs AS waiting,
    front.job_id,
    front.why,
    front.since
   FROM leasehold.order_key k
     JOIN leasehold.queue q ON q.name = k.queue AND q.ordered
     CROSS JOIN LATERAL ( SELECT front_1.job_id,
            front_1.why,
            front_1.since,
            front_1.key_seq
           FROM (( SELECT d.id AS job_id,
                    'dead_letter'::text AS why,
                    d.died_at AS since,
                    d.key_seq
                   FROM leasehold.dead_letter d
                  WHERE d.blocks_key AND d.queue = k.queue AND d.partition_key = k.key
                  ORDER BY d.key_seq
                 LIMIT 1)
                UNION ALL
                ( SELECT j.id,
                        CASE
                            WHEN j.claim_id IS NOT NULL THEN 'processing'::text
                            WHEN j.available_at > leasehold.clock() THEN
                            CASE
                                WHEN j.attempts > 0 THEN 'retrying'::text
                                ELSE 'scheduled'::text
                            END
                            ELSE 'ready'::text
                        END AS "case",
                    COALESCE(j.claimed_at, LEAST(j.available_at, leasehold.clock())) AS "coalesce",
                    j.key_seq
                   FROM leasehold.job j
                  WHERE j.queue = k.queue AND j.partition_key = k.key AND j.key_seq IS NOT NULL
                  ORDER BY j.key_seq
                 LIMIT 1)) front_1
          ORDER BY front_1.key_seq
         LIMIT 1) front
     CROSS JOIN LATERAL ( SELECT count(*) AS jobs
           FROM leasehold.job j
          WHERE j.queue = k.queue AND j.partition_key = k.key AND j.key_seq > front.key_seq) waiting
  WHERE waiting.jobs > 0 OR front.why = 'dead_letter'::text;

create view leasehold.destinations as
 SELECT d.name,
    d.transport,
    d.types,
    q.on_dead_letter,
    (EXISTS ( SELECT
           FROM leasehold.pause p
          WHERE p.queue = q.name OR p.kind = q.name)) AS paused,
    waiting.jobs AS unsent,
    waiting.oldest_at,
    ( SELECT count(*) AS count
           FROM leasehold.dead_letter l
          WHERE l.queue = ('outbox:'::text || d.name)) AS dead_letters
   FROM leasehold.destination d
     JOIN leasehold.queue q ON q.name = ('outbox:'::text || d.name)
     CROSS JOIN LATERAL ( SELECT count(*) AS jobs,
            min(j.created_at) AS oldest_at
           FROM leasehold.job j
          WHERE j.queue = ('outbox:'::text || d.name) AND j.key_seq IS NOT NULL) waiting;

create view leasehold.fleet_events as
 SELECT id,
    at,
    what,
    worker_id,
    label,
    detail
   FROM leasehold.fleet_event;

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
            WHEN j.waiting_for <> '{}'::text[] THEN 'waiting'::text
            WHEN j.available_at > leasehold.clock() AND j.waiting_for IS NULL THEN
            CASE
                WHEN j.attempts > 0 THEN 'retrying'::text
                ELSE 'scheduled'::text
            END
            WHEN j.waiting_for IS NOT NULL OR (EXISTS ( SELECT
               FROM leasehold.pause p
              WHERE p.queue = j.queue OR p.kind = j.kind)) THEN 'paused'::text
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

create view leasehold.runs as
 SELECT queue AS workflow,
    idempotency_key AS run_id,
    id AS job_id,
    "substring"(kind, '@([1-9][0-9]{0,6})$'::text)::integer AS version,
        CASE
            WHEN status = 'pending'::leasehold.job_status AND label = 'waiting'::text THEN 'waiting'::text
            ELSE status::text
        END AS status,
    payload AS input,
    result,
    COALESCE(last_error, to_jsonb(reason)) AS error,
    progress AS note,
    created_at AS started_at,
    completed_at AS ended_at,
    available_at AS wakes_at
   FROM leasehold.jobs carrier
  WHERE kind ~ '@[1-9][0-9]{0,6}$'::text AND idempotency_key IS NOT NULL AND queue = split_part(kind, '@'::text, 1);

create view leasehold.seats as
 SELECT number,
    worker_id,
    label,
    weight,
    queues,
    epoch,
    taken_at,
    expires_at
   FROM leasehold.seat;

create view leasehold.steps as
 SELECT s.job_id,
    s.place,
    s.name,
    s.nth,
    s.type,
    s.state,
    s.attempt,
    s.started_at,
    s.recorded_at,
    s.wake_at,
    s.child_id,
    s.signal_id,
    s.result,
    s.error,
    s.lease_generation,
    s.worker_id,
    w.label AS worker_label
   FROM leasehold.step s
     LEFT JOIN leasehold.worker w ON w.id = s.worker_id;

create view leasehold.workers as
 SELECT id,
    label,
    version,
    mode,
    host,
    pid,
    kinds,
    queues,
        CASE
            WHEN stopped_at IS NOT NULL THEN 'stopped'::text
            WHEN mode = 'by_hand'::text AND last_seen_at <= (leasehold.clock() - '01:00:00'::interval) THEN 'stopped'::text
            WHEN mode <> 'by_hand'::text AND (dead_at IS NOT NULL OR last_seen_at <= (leasehold.clock() - '00:00:15'::interval)) THEN 'dead'::text
            WHEN draining_at IS NOT NULL THEN 'draining'::text
            ELSE 'active'::text
        END AS state,
    started_at,
    last_seen_at,
    draining_at,
    dead_at,
    stopped_at,
    held,
    running,
    event_loop_ms,
    memory_bytes,
    memory_limit_bytes
   FROM leasehold.worker;
