-- serves code from: 1
--
-- For SQL callers: enqueue() for producers in any language, and read-only views. Everything else in the schema is
-- private and may change.

-- Options arrive as one jsonb, so that the signature never grows. What they leave out is taken from the kind, as configure()
-- stored it, and then from the library's defaults.
-- outcome: created | existing (same key, same input). The same key with another input is an error, LH001, unless the option
-- on_conflict is 'return': then conflict, and the stored job is unchanged. A job of an ordered queue needs a partition_key: LH002.
create function leasehold.enqueue(
  kind text, payload jsonb, options jsonb default '{}',
  out job_id bigint, out outcome text
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
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
    leasehold.clock() + coalesce((options ->> 'delay')::interval, interval '0'));
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
  from leasehold.kind k where k.name = enqueue.kind;
  to_queue := coalesce(options ->> 'queue', configured.queue, enqueue.kind);
  if octet_length(enqueue.kind) not between 1 and 200 or octet_length(to_queue) not between 1 and 200
    or octet_length(with_key) not between 1 and 1000 or octet_length(options ->> 'partition_key') not between 1 and 1000 then
    raise exception 'kind and queue hold 1 to 200 bytes, idempotency_key and partition_key 1 to 1000' using
      errcode = 'invalid_parameter_value';
  end if;
  if starts_with(to_queue, 'outbox:') or starts_with(enqueue.kind, 'outbox:') then
    raise exception 'kind "%" in queue "%": names that begin with outbox: are those of destinations', enqueue.kind, to_queue using
      errcode = 'reserved_name', hint = 'Use another name, or leasehold.publish() for an event.';
  end if;
  if (options ->> 'priority')::smallint not between 0 and 9 or (options ->> 'max_attempts')::smallint < 1 then
    raise exception 'priority is 0 to 9, max_attempts at least 1' using errcode = 'invalid_parameter_value';
  end if;
  if octet_length(enqueue.payload::text) > 1048576 then
    raise exception 'payload is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store the data elsewhere and enqueue its address.';
  end if;

  by_key := exists (select from leasehold.queue q where q.by_key and q.name = to_queue);
  if with_key is not null then
    hash := leasehold.input_hash(enqueue.payload);
    keep_for := coalesce((options ->> 'keep_key_for')::interval, configured.keep_key, interval '24 hours');
  end if;
  if not by_key then
    job_id := nextval('leasehold.job_id');
  end if;
  outcome := 'created';
  if with_key is not null or by_key then
    loop
      if by_key then
        -- Stores the job, too, unless its key is taken.
        select o.job_id into job_id
        from leasehold.enqueue_in_order(array[to_queue], array[enqueue.kind], array[enqueue.payload::text],
          array[coalesce((options ->> 'priority')::smallint, configured.priority, 5::smallint)],
          array[coalesce((options ->> 'max_attempts')::smallint, configured.max_attempts, 5::smallint)],
          array[coalesce(leasehold.bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint)],
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
        insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
        values (to_queue, with_key, enqueue.job_id, keep_for, hash, leasehold.key_due_at(keep_for))
        on conflict do nothing;
        exit when found;
      end if;
      -- A new statement, hence a new snapshot: it sees the row that was waited for.
      select k.job_id, k.input_hash = hash into job_id, same
      from leasehold.idempotency_key k where k.queue = to_queue and k.key = with_key;
      if found then
        if not same and options ->> 'on_conflict' is distinct from 'return' then
          raise exception 'idempotency key "%" of queue "%" belongs to job %, which has another payload',
            with_key, to_queue, job_id using errcode = 'LH001',
            hint = 'Use another key, or the option {"on_conflict": "return"} and look at the outcome.';
        end if;
        outcome := case when same then 'existing' else 'conflict' end;
        return;
      end if;
      job_id := nextval('leasehold.job_id'); -- pruned between the two statements
    end loop;
  end if;

  insert into leasehold.job (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue,
    kind, payload, partition_key, idempotency_key, metadata)
  select enqueue.job_id, available, leasehold.clock(),
    coalesce((options ->> 'max_attempts')::smallint, configured.max_attempts, 5),
    coalesce((options ->> 'priority')::smallint, configured.priority, 5),
    coalesce(leasehold.bucket(options ->> 'partition_key'), floor(random() * 1024)::smallint),
    (options ->> 'expires_at')::timestamptz,
    to_queue, enqueue.kind, enqueue.payload, options ->> 'partition_key', with_key,
    options -> 'metadata'
  where not exists (select from leasehold.queue q where q.by_key and q.name = to_queue);
  if not found then
    raise exception 'queue "%" has been configured anew meanwhile', to_queue using
      errcode = 'serialization_failure', hint = 'Send it again.';
  end if;
  if not options ?| array['available_at', 'delay'] then
    perform leasehold.wake(array[to_queue]);
  end if;
end
$$;

-- Every job of all tables, under the specification's names. The label is why a pending job does not run yet.
create view leasehold.jobs as
  select j.id, j.queue, j.kind, j.payload, j.partition_key, j.partition_bucket, j.idempotency_key,
    case when j.claim_id is null then 'pending' else 'processing' end::leasehold.job_status as status,
    case when j.claim_id is not null then null when j.blocked then 'blocked' when j.waiting_for <> '{}' then 'waiting'
      when j.available_at > leasehold.clock() and j.waiting_for is null then
        case when j.attempts > 0 then 'retrying' else 'scheduled' end
      when j.waiting_for is not null or exists (
        select from leasehold.pause p where p.queue = j.queue or p.kind = j.kind
      ) then 'paused'
      else 'ready' end as label,
    j.priority, j.available_at, j.attempts, j.max_attempts, j.crashes,
    c.worker_id as claimed_by, w.label as claimed_by_label, j.claimed_at, c.expires_at as lease_expires_at,
    j.lease_generation, j.cancel_requested_at, j.expires_at, j.progress,
    (select a.error from leasehold.job_attempt a where a.job_id = j.id and a.error is not null
      order by a.lease_generation desc, a.ended_at desc limit 1) as last_error,
    j.cancel_reason as reason, null::jsonb as result, j.metadata, j.created_at, null::timestamptz as completed_at
  from leasehold.job j
  left join leasehold.claim c on c.id = j.claim_id
  left join leasehold.worker w on w.id = c.worker_id
  union all
  select d.id, d.queue, d.kind, d.payload, d.partition_key, d.partition_bucket, d.idempotency_key,
    'dead_letter', null, d.priority, d.available_at, d.attempts, d.max_attempts, d.crashes,
    d.claimed_by, w.label, d.claimed_at, null, d.lease_generation, null, null, null,
    d.error, d.reason, null, d.metadata, d.created_at, d.died_at
  from leasehold.dead_letter d left join leasehold.worker w on w.id = d.claimed_by
  union all
  select a.id, a.queue, a.kind, a.payload, a.partition_key, a.partition_bucket, a.idempotency_key,
    a.status, null, a.priority, a.available_at, a.attempts, a.max_attempts, null,
    a.claimed_by, w.label, a.claimed_at, null, a.lease_generation, null, null, null,
    null, a.cancel_reason, a.result, a.metadata, a.created_at, a.finished_at
  from leasehold.archive a left join leasehold.worker w on w.id = a.claimed_by;

-- Every attempt that has ended. The successful one is the archived job itself.
create view leasehold.attempts as
  select a.job_id, a.attempt, a.lease_generation, a.outcome::text as outcome, a.started_at, a.ended_at, a.worker_id,
    w.label as worker_label, a.error
  from leasehold.job_attempt a left join leasehold.worker w on w.id = a.worker_id
  union all
  select a.id, a.attempts, a.lease_generation, 'completed', a.claimed_at, a.finished_at, a.claimed_by, w.label, null
  from leasehold.archive a left join leasehold.worker w on w.id = a.claimed_by
  where a.status = 'completed';

-- Worker processes that run, and those that ran. A worker beats every 5 s; one that has missed three beats is dead, also before a
-- worker has noticed (0013_fleet.sql). A process that claims by hand does not beat, so it cannot be called dead.
create view leasehold.workers as
  select id, label, version, mode, host, pid, kinds, queues,
    case when stopped_at is not null then 'stopped'
      when mode = 'by_hand' and last_seen_at <= leasehold.clock() - interval '1 hour' then 'stopped'
      when mode <> 'by_hand' and (dead_at is not null or last_seen_at <= leasehold.clock() - interval '15 s') then 'dead'
      when draining_at is not null then 'draining'
      else 'active' end as state,
    started_at, last_seen_at, draining_at, dead_at, stopped_at, held, running, event_loop_ms, memory_bytes,
    memory_limit_bytes
  from leasehold.worker;

-- Operator actions.
create view leasehold.operator_actions as
  select id, at, action, by, outcome, job_id, queue, kind, detail from leasehold.operator_action;
