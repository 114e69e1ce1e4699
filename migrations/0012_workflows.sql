-- serves code from: 1
--
-- Durable workflows (decisions/0038). A run is a job: its input is the job's payload, its id the job's idempotency key, its
-- result that of the job. So leases, fence, retries, dead letters, pauses and the way out are those of jobs. Two tables are added:
--
--   step     what a run has done: its results by name. Written under the fence of the job, and never changed
--   signal   what others sent to a run, and the ends of jobs that a run started

-- `place` is the order in which a run recorded its steps. nth counts the steps of one name, from 1. state:
--   recorded  the step has its result, and does not run again
--   failed    it has failed for good, with this error
--   retrying  an attempt has failed; the next one starts at wake_at
--   waiting   a sleep that ends at wake_at, or a job (child_id) that was started, or joined: then it is not cancelled with the run
-- result is json, not jsonb: the code gets its keys in the order in which its step returned them, as it did the first time.
-- The last row of a name and nth is what counts. The salt is the job's: a run that got the id of another from a sequence that a
-- failover set back does not find its steps.
create type leasehold.step_state as enum ('recorded', 'failed', 'retrying', 'waiting');

create table leasehold.step (
  job_id           bigint not null,
  recorded_at      timestamptz not null,
  started_at       timestamptz not null,
  wake_at          timestamptz,
  lease_generation bigint not null,
  signal_id        bigint,
  child_id         bigint,
  worker_id        uuid not null,
  place            integer not null,
  nth              integer not null,
  salt             integer not null,
  attempt          smallint not null,
  joined           boolean not null default false,
  state            leasehold.step_state not null,
  type             text not null,
  name             text not null,
  result           json,
  error            jsonb,
  constraint step_pkey primary key (job_id, place, salt)
) with (vacuum_truncate = off);

-- The runs that wait for a job.
create index step_child on leasehold.step (child_id) where child_id is not null;

create sequence leasehold.signal_id as bigint;

-- Senders only insert. consumed: a step of the run has it. noticed: the run needs no waking for it any more.
create table leasehold.signal (
  id              bigint not null default nextval('leasehold.signal_id'),
  job_id          bigint not null,
  sent_at         timestamptz not null,
  salt            integer not null,
  consumed        boolean not null default false,
  noticed         boolean not null default false,
  name            text not null,
  idempotency_key text,
  payload         jsonb,
  constraint signal_pkey primary key (job_id, id)
) with (fillfactor = 80, vacuum_truncate = off);

create unique index signal_once on leasehold.signal (job_id, salt, name, idempotency_key) where idempotency_key is not null;

-- What a run receives next, by name.
create index signal_to_receive on leasehold.signal (job_id, name, id) where not consumed;

-- What wake_signalled() walks.
create index signal_to_notice on leasehold.signal (id) where not noticed;

-- Sends a signal to the run of a workflow, in the caller's transaction. sent; duplicate: that key was sent before; finished: the run has
-- ended; not_found: there is no such run. The sender locks nothing of the run: a hundred of them do not wait for each other,
-- except those that use the same idempotency key.
create function leasehold.signal(
  workflow text, run_id text, name text, payload jsonb default null, idempotency_key text default null
) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
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
  select k.job_id into run_job from leasehold.idempotency_key k where k.queue = signal.workflow and k.key = signal.run_id;
  if not found then
    return 'not_found';
  end if;
  select j.salt into run_salt from leasehold.job j where j.id = run_job;
  if not found then
    select d.salt into run_salt from leasehold.dead_letter d where d.id = run_job;
    if not found then
      return 'finished';
    end if;
  end if;
  insert into leasehold.signal (job_id, salt, sent_at, name, payload, idempotency_key)
  values (run_job, run_salt, leasehold.clock(), signal.name, signal.payload, signal.idempotency_key)
  on conflict do nothing;
  if not found then
    return 'duplicate';
  end if;
  perform leasehold.tell('signal', signal.workflow);
  return 'sent';
end
$$;

-- The payload of the signal that a job has ended.
create function leasehold.end_of_job(status leasehold.job_status, result jsonb, error jsonb) returns jsonb
  language sql immutable parallel safe
  return jsonb_strip_nulls(jsonb_build_object('status', status, 'error', error)) || jsonb_build_object('result', result);

-- A job has ended that runs have started or joined: each gets a signal, also one that is a dead letter now and may be redriven.
-- Called on every way out of leasehold.job.
create function leasehold.notify_parent(
  parent_id bigint, child_id bigint, status leasehold.job_status, result jsonb, error jsonb
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  insert into leasehold.signal (job_id, salt, sent_at, name, payload)
  select s.job_id, s.salt, leasehold.clock(), 'job ' || s.child_id,
    leasehold.end_of_job(notify_parent.status, notify_parent.result, notify_parent.error)
  from leasehold.step s where s.child_id = notify_parent.child_id and s.state = 'waiting';
  perform leasehold.tell('signal', j.queue) from leasehold.job j where j.id = notify_parent.parent_id;
  return true;
end
$$;

-- Wakes the runs that wait for signals which have come. Who wakes a run that parks while a signal is being sent?
--
-- A run parks by a statement that looks for signals it has not consumed (job.settle). If the signal committed before that statement
-- began, it is found there, and the run is available at once. If it commits later, it is found here: noticed is set only
-- while the row of the job is locked and shows that the run is not held by a worker. A run that is held may be about to park
-- by a statement that began before the signal was committed, so its signals stay, and the next call looks again. A row that
-- another transaction has locked is passed over, with the same effect. Nothing here waits.
--
-- Returns the last signal that it looked at, or null if there are no more.
create function leasehold.wake_signalled(after_id bigint, at_most integer) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
as $$
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
    select s.id, s.job_id, s.name from leasehold.signal s where not s.noticed and s.id > after_id order by s.id limit at_most
  ) as s;
  if signals is null then
    return null;
  end if;
  select array_agg(l.id) into free
  from (select j.id from leasehold.job j where j.id = any (jobs) and j.claim_id is null for update skip locked) as l;
  with woken as (
    update leasehold.job
    set available_at = leasehold.clock(), waiting_for = null
    where job.id = any (free) and (
      select true from unnest(jobs, names) as s (job_id, name) where s.job_id = job.id and s.name = any (job.waiting_for) limit 1
    )
    returning job.queue
  )
  select array_agg(distinct woken.queue) into queues from woken;
  free := free || array(
    select distinct l.id from unnest(jobs) as l (id) where (select true from leasehold.job j where j.id = l.id) is null
  );
  -- One a call: a list would be joined with the table (decisions/0004).
  for n in 1 .. cardinality(signals) loop
    if jobs[n] = any (free) then
      update leasehold.signal s set noticed = true where s.job_id = jobs[n] and s.id = signals[n];
    end if;
  end loop;
  if queues is not null then
    perform leasehold.wake(queues);
  end if;
  return case when cardinality(signals) = at_most then signals[at_most] end;
end
$$;

-- A step was recorded, so the job does not kill its worker: attempts and crashes count from here. A row that another transaction has
-- locked is left as it is, and the next record does it.
create function leasehold.count_from_here(job_ids bigint[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
begin
  update leasehold.job set attempts = 1, crashes = 0
  where id = any (array(select j.id from leasehold.job j where j.id = any (job_ids) for update skip locked));
  return true;
end
$$;

-- A step has received these signals.
create function leasehold.consume(job_ids bigint[], signal_ids bigint[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  -- One a call: two lists would be probed in every combination.
  for n in 1 .. cardinality(job_ids) loop
    update leasehold.signal s set consumed = true where s.job_id = job_ids[n] and s.id = signal_ids[n];
  end loop;
  return true;
end
$$;

-- Whether a job has steps on record: it is a run that has begun. Its cancellation is a request, since it may have to compensate.
create function leasehold.has_begun(job_id bigint) returns boolean
  language sql stable parallel safe
  return exists (select from leasehold.step s where s.job_id = has_begun.job_id);

-- Runs, under the names of workflows: a run's kind is its queue, an @ and its version. Other kinds may have an @, too, and a filter of a query
-- may be applied before the one of this view, so the version of such a kind is null.
create view leasehold.runs as
  select carrier.queue as workflow, carrier.idempotency_key as run_id, carrier.id as job_id,
    substring(carrier.kind from '@([1-9][0-9]{0,6})$')::integer as version,
    case when carrier.status = 'pending' and carrier.label = 'waiting' then 'waiting' else carrier.status::text end as status,
    carrier.payload as input, carrier.result, coalesce(carrier.last_error, to_jsonb(carrier.reason)) as error, carrier.progress as note, carrier.created_at as started_at,
    carrier.completed_at as ended_at, carrier.available_at as wakes_at
  from leasehold.jobs carrier
  where carrier.kind ~ '@[1-9][0-9]{0,6}$' and carrier.idempotency_key is not null and carrier.queue = split_part(carrier.kind, '@', 1);

create view leasehold.steps as
  select s.job_id, s.place, s.name, s.nth, s.type, s.state, s.attempt, s.started_at, s.recorded_at, s.wake_at, s.child_id, s.signal_id,
    s.result, s.error, s.lease_generation, s.worker_id, w.label as worker_label
  from leasehold.step s left join leasehold.worker w on w.id = s.worker_id;

-- A run starts a job and records that, in one transaction and under its fence. Returns the job, or null if the run is not held any
-- more. A job that exists under the same idempotency key is taken as it is; if it has ended, the run gets its result as a signal now. The
-- completion of a run always looks for runs that have joined it. Under a key that is made from the id of this run it is its own: it may
-- have started it before an operator took it back. 0: it is another job, which a worker executes that does not know of
-- this; ask again. Negative: the job has that key with another payload, and nothing was done.
create function leasehold.start_child(
  run_id bigint, held_by bigint, at_place integer, after_place integer, step_name text, of_nth integer, kind text, payload jsonb,
  options jsonb, by_worker uuid
) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  run record;
  child bigint;
  found_as text;
  existing record;
begin
  select j.salt, j.lease_generation, j.idempotency_key || '/' as own_keys into run from leasehold.job j where j.id = run_id and j.claim_id = held_by for share;
  if not found or (after_place > 0 and not exists (
    select from leasehold.step s where s.job_id = run_id and s.place = after_place and s.salt = run.salt
  )) then
    return null;
  end if;
  select s.child_id into child from leasehold.step s where s.job_id = run_id and s.place = at_place and s.salt = run.salt;
  if found then
    return child; -- The reply was lost, and it is asked again.
  end if;
  select e.job_id, e.outcome into child, found_as
  from leasehold.enqueue(start_child.kind, start_child.payload, start_child.options || '{"on_conflict": "return"}') e;
  if found_as = 'conflict' then
    return -child;
  end if;
  select j.claim_id, j.parent_id, j.kind into existing from leasehold.job j where j.id = child for update;
  if found and existing.claim_id is not null and existing.parent_id is null and existing.kind not like '%@%' then
    return 0;
  elsif found then
    update leasehold.job set parent_id = run_id where job.id = child;
  else
    insert into leasehold.signal (job_id, salt, sent_at, name, payload)
    select run_id, run.salt, leasehold.clock(), 'job ' || child, leasehold.end_of_job(ended.status, ended.result, ended.error)
    from (
      select a.status, a.result, to_jsonb(a.cancel_reason) as error from leasehold.archive a where a.id = child
      union all
      select 'dead_letter', null, d.error from leasehold.dead_letter d where d.id = child
    ) as ended;
  end if;
  insert into leasehold.step (job_id, recorded_at, started_at, lease_generation, child_id, worker_id, place, nth, salt, attempt, joined,
    state, type, name)
  values (run_id, leasehold.clock(), leasehold.clock(), run.lease_generation, child, by_worker, at_place, of_nth, run.salt, 1,
    found_as = 'existing' and starts_with(options ->> 'idempotency_key', run.own_keys) is not true, 'waiting',
    'job', step_name);
  return child;
end
$$;

-- Deletes steps and signals of runs that are past their retention. A run is kept as long as its id. Walks up to at_most rows of each
-- table after a job id. Returns where to go on; null at the end.
create function leasehold.prune_runs(after_id bigint, at_most integer) returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  looked bigint[];
  gone bigint[];
begin
  looked := array(
    select distinct l.job_id from (
      (select s.job_id from leasehold.step s where s.job_id > after_id order by s.job_id limit at_most)
      union all
      (select s.job_id from leasehold.signal s where s.job_id > after_id order by s.job_id limit at_most)
    ) as l order by l.job_id limit at_most
  );
  if looked = '{}' then
    return null;
  end if;
  gone := array(
    select l.id from unnest(looked) as l (id)
    where (select true from leasehold.job j where j.id = l.id) is null
      and (select true from leasehold.dead_letter d where d.id = l.id) is null
      and (select true from leasehold.idempotency_key k where k.job_id = l.id limit 1) is null
  );
  delete from leasehold.step where job_id = any (gone);
  delete from leasehold.signal where job_id = any (gone);
  return looked[cardinality(looked)];
end
$$;

-- A run that no worker holds forgets what it recorded from this step on, and its signals are there to be received again. Of a
-- compensation it forgets this one alone: those behind it are not undone twice. A dead letter that was to be cancelled goes on from a
-- step: the request is dropped. done; processing: a worker has it; no_such_step. The
-- caller then redrives the job, if it is a dead letter.
create function leasehold.rewind(job_id bigint, step_name text, of_nth integer, is_compensation boolean) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  run record;
  from_place integer;
begin
  select j.salt, j.claim_id, j.queue, true as is_pending into run from leasehold.job j where j.id = rewind.job_id for update;
  if not found then
    select d.salt, null::bigint as claim_id, d.queue, false as is_pending into run
    from leasehold.dead_letter d where d.id = rewind.job_id for update;
    if not found then
      return 'not_found';
    end if;
  end if;
  if run.claim_id is not null then
    return 'processing';
  end if;
  -- A step, before a wait of the same name.
  select s.place into from_place from leasehold.step s
  where s.job_id = rewind.job_id and s.salt = run.salt and s.name = step_name and s.nth = of_nth
    and (s.type = 'compensation') = is_compensation
  order by s.type <> 'step', s.place limit 1;
  if not found then
    return 'no_such_step';
  end if;
  update leasehold.signal set consumed = false
  where signal.job_id = rewind.job_id and signal.id = any (array(
    select s.signal_id from leasehold.step s where s.job_id = rewind.job_id and s.place >= from_place and s.signal_id is not null
  ));
  -- The ends of jobs that it starts or joins again: it hears of them anew, and how they ended may have changed.
  delete from leasehold.signal
  where not is_compensation and signal.job_id = rewind.job_id and signal.name = any (array(
    select 'job ' || s.child_id from leasehold.step s where s.job_id = rewind.job_id and s.child_id is not null
    group by s.child_id having min(s.place) >= from_place
  ));
  delete from leasehold.step s where s.job_id = rewind.job_id and s.place >= from_place
    and (not is_compensation or (s.type = 'compensation' and s.name = step_name and s.nth = of_nth));
  if run.is_pending then
    update leasehold.job set available_at = leasehold.clock(), waiting_for = null where job.id = rewind.job_id;
    perform leasehold.wake(array[run.queue]);
  elsif not is_compensation then
    update leasehold.dead_letter set cancel_requested_at = null, cancel_reason = null where dead_letter.id = rewind.job_id;
  end if;
  return 'done';
end
$$;

-- Ends a run as cancelled, now and without compensation. A worker that executes it is refused from here on. ended, or not_found.
create function leasehold.terminate(job_id bigint, reason text, by_operator text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
begin
  perform from leasehold.job j where j.id = terminate.job_id for update;
  if not found then
    return 'not_found';
  end if;
  perform leasehold.finish('cancelled', array[terminate.job_id], null, array[reason]);
  insert into leasehold.operator_action (at, action, by, outcome, job_id, detail)
  values (leasehold.clock(), 'terminate', by_operator, 'cancelled', terminate.job_id, reason);
  return 'ended';
end
$$;

-- Pauses one run, or lets it go on. One that a worker executes is paused at its next wait; one that crashes then is claimed once more,
-- and its worker finds that it is paused. done; unchanged: it was so already; not_found.
create function leasehold.pause_run(job_id bigint, pauses boolean, by_operator text) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  run record;
  at constant timestamptz := leasehold.clock();
begin
  select j.claim_id, j.queue, coalesce(j.waiting_for = '{}', false) as is_paused into run
  from leasehold.job j where j.id = pause_run.job_id for update;
  if not found then
    return 'not_found';
  end if;
  if run.is_paused = pauses then
    return 'unchanged';
  end if;
  if run.claim_id is not null then
    update leasehold.job set waiting_for = case when pauses then '{}'::text[] end where id = pause_run.job_id;
  elsif pauses then
    update leasehold.job set waiting_for = '{}', available_at = at + interval '100 years' where id = pause_run.job_id;
  else
    update leasehold.job set waiting_for = null, available_at = at where id = pause_run.job_id;
    perform leasehold.wake(array[run.queue]);
  end if;
  insert into leasehold.operator_action (at, action, by, outcome, job_id)
  values (at, case when pauses then 'pause' else 'resume' end, by_operator, case when pauses then 'paused' else 'resumed' end,
    pause_run.job_id);
  return 'done';
end
$$;
