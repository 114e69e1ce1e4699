-- serves code from: 1
--
-- How a job is claimed, returned and finished. Functions, because their plans must not depend on what the planner
-- believes, and because what happens when a job ends must be written once.

-- A claim's generation is at least this: the time in milliseconds. After a failover that lost the last claims of a job the
-- next one is still higher, so a store outside that keeps the highest it has seen refuses the old holder. A new server
-- whose clock is behind breaks that, for as long as it is behind; the fence in this database does not depend on it.
create function leasehold.generation_floor() returns bigint
  language sql stable parallel safe
  return (extract(epoch from leasehold.clock()) * 1000)::bigint;

-- The claim: the one statement that walks a queue in order. A queue that was analyzed while nearly empty and then filled by
-- a burst looked like two rows worth sorting. The settings leave the planner the index walk and nothing else
-- (decisions/0006).
--
-- A spot is a (queue, line, priority) and the row to start from, such as a mark. The walk is lazy: rows are locked one by one, in
-- the order of the spots, at most `share` from each, until the limit is reached; no later spot is even looked at. Before a
-- row is returned its latest version is locked and tested again, so a row that was claimed, finished or moved since the
-- snapshot is passed over: no two claims return one row.
--
-- Without priorities the claim is a look from the beginning of the queues, in their order. It asks each queue which
-- priorities are in use, last row first: ten spots a queue made an idle look over 1,000 queues six times as slow. From the
-- last row, because one that is alive is mostly found at once, and where all are dead there is nothing left to walk: either
-- way dead entries are stepped over once. older_ms and younger_ms are a slice of a look that takes too long as a whole:
-- only jobs that have been due for so long, and not for longer.
--
-- The inputs of one claim come to 16 MiB at most, or it is one job. Stored sizes cost nothing to read. Compressed, an input
-- may be a hundredth of what it is; only if all together may be too much are they rendered, to be measured. Rows that were
-- locked and left out are free again when the claim commits.
--
-- Jobs whose lease expired before (suspects) are claimed apart: crashes between crashes_from and crashes_to.
-- Each spot has a line: 0 unless the queue is on the ring. Suspects are few, so they are not looked for line by line: each spot has a
-- bitmap of 1024 bits instead, the buckets whose jobs may be claimed; null: all.
-- Of an ordered queue the walk finds the heads of keys (0010_order.sql). Each brings a run along, the jobs that follow it in its
-- key, up to run_length of them in all. Callers that do not know of runs pass none, and get no ordered job: they would start a
-- run all at once, and their completions let no job in.
-- The first row is no job, and has no id: lease_generation is what the walk took, in microseconds; attempts, how many jobs
-- it found, or that there are more of a fair queue; available_at, the time of the claim, or null if all that was asked for is
-- paused; key_seq, the generation of nearly all. The others come in no order: sorting
-- would copy each row twice more, and the worker sees in one look whether it must sort.
-- Of these others a column is null where it says what it says of most jobs (decisions/0033): that generation, attempt 1 of 5, priority 5,
-- line 0, the first of the kinds, a queue named like the kind, created when it became available.
-- key_seq is -1 of a job outside ordered queues that has a parent: its completion has to notify that.
create function leasehold.claim(
  claim_id bigint, worker_id uuid, lease_ms double precision, max_jobs integer, kinds text[],
  queues text[], priorities smallint[] default null, from_at timestamptz[] default null, from_id bigint[] default null,
  crashes_from smallint default 0, crashes_to smallint default 0, buckets bytea[] default null,
  share integer default null, older_ms double precision default null, younger_ms double precision default null,
  run_length integer default 0, lines smallint[] default null
) returns table (
  id bigint, lease_generation bigint, attempts smallint, max_attempts smallint, queue text, kind text, payload jsonb,
  priority smallint, available_at text, created_at text, partition_key text, partition_bucket smallint, salt integer,
  metadata jsonb, line smallint, key_seq bigint
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_sort = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := leasehold.clock();
  generation_floor constant bigint := leasehold.generation_floor();
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
  if exists (select from leasehold.order_check c where c.id > 0) then
    perform leasehold.check_order(queues);
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
      from leasehold.job
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
        from leasehold.job
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
          from leasehold.job
          where job.queue = spot.queue and job.line = spot.line and job.priority = spot.priority and not job.blocked
            and job.crashes = 0
            and (job.available_at, job.id) >= (spot.from_at, spot.from_id) and job.available_at <= until
            and job.claim_id is null and job.kind = any (kinds) and (job.key_seq is null or run_length > 0)
            and (job.expires_at is null or job.expires_at > at)
          order by job.available_at, job.id
          limit at_most
          for update skip locked
        ) j
        where leaves_out_paused or not exists (select from leasehold.pause)
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
          from leasehold.job
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
        where leaves_out_paused or not exists (select from leasehold.pause)
        limit max_jobs
      ) j;
    end if;
    -- Two steps, since a condition with a subselect is a statement of its own.
    exit when picked is not null or leaves_out_paused;
    exit when not exists (select from leasehold.pause);
    leaves_out_paused := true;
    kinds := array(
      select asked.name from unnest(kinds) as asked (name)
      where asked.name not in (select p.kind from leasehold.pause p where p.kind is not null));
    -- Without a kind the walk would step over the whole backlog, and find nothing.
    if kinds = '{}' then
      return next;
      return;
    end if;
    select array_agg(asked.queue), array_agg(asked.line), array_agg(asked.priority), array_agg(asked.from_at),
      array_agg(asked.from_id), array_agg(asked.buckets)
    into queues, lines, priorities, from_at, from_id, buckets
    from unnest(queues, lines, priorities, from_at, from_id, buckets) as asked (queue, line, priority, from_at, from_id, buckets)
    where asked.queue not in (select p.queue from leasehold.pause p where p.queue is not null);
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
      rendered := rendered + (select octet_length(job.payload::text) from leasehold.job where job.id = picked[place]);
      if rendered > 16777216 and place > 1 then
        picked := picked[1:place - 1];
        exit;
      end if;
    end loop;
  end if;
  if has_ordered then
    ordered_queues := array(select q.name from leasehold.queue q where q.by_key and q.ordered);
    if crashes_to = 0 and (run_length > 1 or cardinality(picked) < max_jobs) then
      select w.ids, w.more into picked, has_more
      from leasehold.with_runs(picked, kinds, run_length, max_jobs, ordered_queues) w;
      if has_more then
        attempts := cardinality(picked) + 1;
      end if;
    end if;
  end if;
  return next;
  insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
  values (claim.claim_id, claim.worker_id, at, at + lease_ms * interval '1 ms', picked);
  -- The rows are locked: nothing can have changed them since. Times as the server stores them, in hexadecimal: to the
  -- microsecond, the same in every session, and immutable, as a distributed Postgres wants it. Printed as dates, in a CTE,
  -- they took a tenth of the claim's time.
  return query
    update leasehold.job
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
    perform leasehold.take_turns(picked, ordered_queues);
  end if;
end
$$;

-- Makes a claimed job pending again, in place. One job a call: a list would have to be joined, and every join of this
-- table went wrong under some plan (decisions/0004).
-- In an ordered queue the job is the head of its key again, and the rest of its run is returned with it; or it waits behind a
-- job that still runs. Under a claim that was swept in part it may be behind one that ran again and is a dead letter by now.
-- A release keeps the job's place in the line, and its expiry. Every other requeue follows a start: expires_at, by
-- which the job had to start, has been met. It is cleared rather than compared, so that the job leaves the index that expire
-- walks.
-- A run of a workflow that was paused stays so (0012_workflows.sql).
create function leasehold.requeue(
  job_id bigint, held_by bigint, next_at timestamptz, returns_attempt boolean, clears_crashes boolean,
  waits_for text[] default null
) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  returned record;
  far constant timestamptz := leasehold.clock() + interval '100 years';
begin
  update leasehold.job
  set claim_id = null, claimed_at = null, available_at = case when job.waiting_for = '{}' then far else next_at end,
    waiting_for = case when job.waiting_for = '{}' then job.waiting_for else waits_for end,
    attempts = case when returns_attempt then job.attempts - 1 else job.attempts end,
    crashes = case when clears_crashes then 0 else job.crashes end,
    expires_at = case when next_at = job.available_at then job.expires_at end,
    blocked = job.key_seq is not null and exists (
      select from leasehold.queue q where q.name = job.queue and q.ordered
    ) and (exists (
      select from leasehold.job ahead
      where ahead.queue = job.queue and ahead.partition_key = job.partition_key and ahead.key_seq < job.key_seq
    ) or (
      select true from leasehold.dead_letter d
      where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq < job.key_seq
      limit 1
    ) is true)
  where job.id = job_id and job.claim_id = held_by
  returning job.queue, job.partition_key, job.key_seq into returned;
  if returned.key_seq is not null then
    perform leasehold.return_rest(held_by, returned.queue, returned.partition_key, returned.key_seq);
  end if;
  return 'pending';
end
$$;

-- The worker of an expired lease is alive after all: undoes the sweep's verdict, unless the job was claimed since.
-- Attempt and crash are as before that claim, and the attempt is on record as released. Found by its claim id, and changed
-- only while no later claim raised the generation, so it happens once.
create function leasehold.forgive(job_id bigint, claim_id bigint) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  crashed record;
begin
  select a.lease_generation, a.ended_at, a.attempt into crashed
  from leasehold.job_attempt a
  where a.job_id = forgive.job_id and a.claim_id = forgive.claim_id and a.outcome = 'crashed'
  limit 1;
  if not found then
    return false;
  end if;
  update leasehold.job set crashes = job.crashes - 1, attempts = crashed.attempt - 1
  where job.id = (
    select j.id from leasehold.job j
    where j.id = forgive.job_id and j.claim_id is null and j.lease_generation = crashed.lease_generation and j.crashes > 0
    for update skip locked
  );
  if not found then
    return false;
  end if;
  update leasehold.job_attempt a set outcome = 'released'
  where a.job_id = forgive.job_id and a.lease_generation = crashed.lease_generation and a.ended_at = crashed.ended_at;
  return true;
end
$$;

-- The way out of leasehold.job (decisions/0024). A statement locks rows and judges them; this moves them. All other effects
-- of a job's end are written here, and in the two completions that a test compares with it.
--
-- The caller holds the lock of every row it names, so nothing can have changed them since it judged. Or it gives a fence:
-- then only jobs that are held under that claim leave. Returns how many did. The arrays are parallel to job_ids; one that
-- is null is all nulls, and an id that is null names no job.
--   completed    to the archive for keep_ms; null: deleted, unless it has an idempotency key, which needs its finish time.
--                keep_all_ms is for all of them, and none has a result: then there is nothing to join
--   cancelled    to the archive for 7 days, with the reason
--   dead_letter  to dead_letter, with reason and error; without an error, with that of its last failed attempt
-- Lists of one call are joined by hash, never by a loop within a loop. A lease that expired counts as one more crash.
-- Of an ordered queue the next job of each key is let in. A dead letter may block its key, as the queue is configured, unless it
-- expired. `lets_in`: whether to look for jobs of ordered queues; completions mostly know that there are none. Of those run_from
-- has the place of the first job of each one's run.
create function leasehold.finish(
  status leasehold.job_status, job_ids bigint[], worker_id uuid, reasons text[] default null, errors jsonb[] default null,
  results jsonb[] default null, keep_ms double precision[] default null, fence bigint default null,
  keep_all_ms double precision default null, lets_in boolean default null, run_from bigint[] default null
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = off
  set enable_mergejoin = off
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := leasehold.clock();
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
      select j.id, j.queue, j.partition_key, j.key_seq, j.claim_id, j.parent_id from leasehold.job j
      where j.id = any (job_ids) and (fence is null or j.claim_id = fence)
    )
    select array_agg(h.queue) filter (where h.key_seq is not null), array_agg(h.partition_key) filter (where h.key_seq is not null),
      array_agg(h.key_seq) filter (where h.key_seq is not null), array_agg(h.claim_id) filter (where h.key_seq is not null),
      array_agg(r.run_from) filter (where h.key_seq is not null), bool_or(h.parent_id is not null)
    into queues, keys, seqs, claims, from_seqs, have_parents
    from held h join unnest(job_ids, run_from) as r (id, run_from) on r.id = h.id;
    if have_parents then
      with children as materialized (
        select j.id, j.parent_id from leasehold.job j
        where j.id = any (job_ids) and j.parent_id is not null and (fence is null or j.claim_id = fence)
      )
      select count(leasehold.notify_parent(c.parent_id, c.id, finish.status, r.result, coalesce(r.error, to_jsonb(r.reason))))
      into forgotten
      from children c join unnest(job_ids, results, reasons, errors) as r (id, result, reason, error) on r.id = c.id;
      forgotten := 0;
    end if;
    if queues is not null then
      moved := leasehold.finish(finish.status, job_ids, finish.worker_id, reasons, errors, results, keep_ms, fence,
        keep_all_ms, lets_in => false);
      perform leasehold.leave_keys(finish.status, queues, keys, seqs, claims, case when run_from is not null then from_seqs end);
      return moved;
    end if;
  end if;
  if finish.status = 'dead_letter' then
    with ended as (
      delete from leasehold.job where job.id = any (job_ids) and (fence is null or job.claim_id = fence) returning *
    )
    insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, claim_id, claimed_at,
      claimed_by, attempts, max_attempts, crashes, priority, partition_bucket, salt, blocks_key, key_seq, parent_id, queue, kind,
      reason, error, payload, partition_key, idempotency_key, metadata, cancel_requested_at, cancel_reason)
    select e.id, at, e.available_at, e.created_at, e.lease_generation, e.claim_id, e.claimed_at, finish.worker_id,
      e.attempts, e.max_attempts,
      case told.reason when 'lease_expired' then least(e.crashes, 32766) + 1 else e.crashes end, e.priority,
      e.partition_bucket, e.salt, e.key_seq is not null and told.reason <> 'expired' and (
        select q.on_dead_letter <> 'skip' from leasehold.queue q where q.name = e.queue
      ) is not false, e.key_seq, e.parent_id, e.queue, e.kind, told.reason, coalesce(told.error, (
        select a.error from leasehold.job_attempt a where a.job_id = e.id and a.error is not null
        order by a.lease_generation desc, a.ended_at desc limit 1
      )), e.payload, e.partition_key, e.idempotency_key, e.metadata, e.cancel_requested_at, e.cancel_reason
    from ended e join unnest(job_ids, reasons, errors) as told (id, reason, error) on told.id = e.id;
    get diagnostics moved = row_count;
    return moved;
  end if;
  if finish.status = 'completed' and keep_all_ms is not null then
    with ended as (
      delete from leasehold.job where job.id = any (job_ids) and (fence is null or job.claim_id = fence)
      returning job.id, job.available_at, job.created_at, job.lease_generation, job.claim_id, job.claimed_at, job.attempts,
        job.max_attempts, job.priority, job.partition_bucket, job.queue, job.kind, job.payload, job.partition_key,
        job.idempotency_key, job.metadata
    )
    insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
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
    delete from leasehold.job
    where job.id = any (job_ids) and (fence is null or job.claim_id = fence) and job.idempotency_key is null;
    get diagnostics forgotten = row_count;
    if forgotten = cardinality(job_ids) then
      return forgotten;
    end if;
  end if;
  with ended as (
    delete from leasehold.job where job.id = any (job_ids) and (fence is null or job.claim_id = fence) returning *
  ), archived as (
    insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
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
$$;

-- Completes large batches: each claim's jobs leave through finish() with the claim as fence. job_ids names the jobs of the
-- first claim, then those of the next; sizes says how many each has. They are kept for keep_all_ms; null: not at all. Or each
-- has a result and a keep_ms of its own. run_from is of jobs of ordered queues. No row is locked beforehand, which took a third
-- to half of the time. So this may wait for a row that another transaction has locked, for 5 ms. After that, and when a job is
-- not held any more, nothing is done and it returns false: the completion that looks at each job by itself is next. So it is if a
-- job of an ordered queue would be recorded before one that ran before it (leave_keys), or under a claim that was swept.
--
-- The 5 ms may also pass in waiting for another lock than that of a row. Workers that fill the archive at once wait for each other
-- to extend it, and a batch of a thousand took twenty statements instead of one. So after a wait the rows are locked, without
-- waiting. If all can be, it starts again, and waits for any other lock as long as the completion of each job by itself would.
--
-- Two of these never wait for each other's rows, since a job is held under one claim. A deadlock with any other transaction about
-- rows ends after the 5 ms.
create function leasehold.complete_many(
  job_ids bigint[], claim_ids bigint[], sizes integer[], worker_id uuid, keep_all_ms double precision,
  results jsonb[] default null, keep_ms double precision[] default null, run_from bigint[] default null
) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set lock_timeout = '5ms'
  set jit = off
as $$
declare
  first integer;
  last integer;
begin
  loop
    begin
      first := 1;
      for place in 1 .. cardinality(claim_ids) loop
        last := first + sizes[place] - 1;
        if run_from is not null and (select c.swept from leasehold.claim c where c.id = claim_ids[place]) then
          raise no_data_found;
        end if;
        if leasehold.finish('completed', job_ids[first:last], worker_id, results => results[first:last],
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
      select count(*) from (select from leasehold.job j where j.id = any (job_ids) for update skip locked) as locked
    ) < cardinality(job_ids) then
      return false;
    end if;
    perform set_config('lock_timeout', '0', true);
  end loop;
end
$$;
