-- serves code from: 1
--
-- Order per key, and fairness among keys (decisions/0034). In an ordered queue the jobs of one partition key start one after the
-- other, in the order in which their enqueues committed.
--
--   key_seq      a job's place in its key. The enqueue draws it while it holds the row of the key in order_key, until it commits.
--                So the order of key_seq is the order of commits
--   blocked      of a key, only the head is in the claim index. A job becomes the head by an enqueue into an empty key, or
--                when what was in front of it leaves
--   blocks_key   a dead letter that is in the way of its key, until it is redriven or an operator unblocks the key
--
-- A job may be let in when no unfinished job and no blocking dead letter of its key has a lower key_seq. The
-- transaction that removes the obstacle lets the next job in: advance() is called by every way out of leasehold.job. It waits for
-- no lock. If it cannot know (a producer has not committed yet, another transaction holds the next job), it leaves a row in
-- order_check, and the next claim looks again.
--
-- In a fair queue only one job of each key is in the claim index, too, but others of the key may run at the same time. A claim
-- takes one of each key in turn, then more of each if there is room, and lets the next one in at the back of the line. There what
-- comes first is the first job that is not claimed. A job with a key_seq in a queue that is not ordered is of a fair queue,
-- since whether a queue is ordered changes only while it is empty.

-- One row for each key that has unfinished jobs or a blocking dead letter. Producers hold it until they commit; nothing else
-- waits for it.
create table leasehold.order_key (
  queue  text not null,
  key    text not null,
  reused boolean not null default false,
  constraint order_key_pkey primary key (queue, key)
) with (fillfactor = 70, vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create sequence leasehold.order_check_id as bigint;

-- Keys to look at again.
create table leasehold.order_check (
  id    bigint not null default nextval('leasehold.order_check_id'),
  queue text not null,
  key   text not null,
  constraint order_check_pkey primary key (id)
) with (vacuum_truncate = off);

create index order_check_by_queue on leasehold.order_check (queue, id);

create index job_in_key on leasehold.job (queue, partition_key, key_seq) where key_seq is not null;

create index dead_letter_blocks on leasehold.dead_letter (queue, partition_key, key_seq) where blocks_key;

-- Lets the head of each key in, unless it is in already. Called after what was in front of it has left, in the same
-- transaction. Returns how many jobs it let in. A job that is let in is available from now on, so that claims find it
-- beyond their scan cursor, and its key goes behind those that wait.
--
-- Completions know the first job of the run, and everything before that has ended: from_seqs has its place for each key. So a
-- look does not step over all that a hot key has done since the oldest snapshot that is open anywhere. And no dead letter can have
-- been redriven in front of a job that runs.
--
-- A caller's transaction may stay open for long, and must not keep producers waiting: with is_open the row of an empty key is not
-- locked, and the key is looked at again after the commit.
--
-- The argument (0034). Each lookup is a statement of its own, so it sees what committed before it. Each job it finds it
-- locks: a transaction that takes the same job away at the same time is seen as a lock that is not granted, never missed.
create function leasehold.advance(
  queues text[], keys text[], from_seqs bigint[] default null, is_open boolean default false
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = on
  set enable_sort = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := leasehold.clock();
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
    select q.ordered from leasehold.queue q where q.name = k.queue
  )), array_agg(k.from_seq) into queues, keys, ordered, from_seqs
  from (
    select i.queue, i.key, coalesce(min(i.from_seq), 0) as from_seq
    from unnest(queues, keys, from_seqs) as i (queue, key, from_seq)
    group by i.queue, i.key order by i.queue, i.key
  ) as k;
  select array_agg(head.id order by k.place) into heads
  from unnest(queues, keys, ordered, from_seqs) with ordinality as k (queue, key, ordered, from_seq, place)
  left join lateral (
    select job.id from leasehold.job
    where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq
      and (k.ordered or job.claim_id is null)
    order by job.key_seq
    limit 1
  ) head on true;
  select array_agg(l.id) into locked
  from (select job.id from leasehold.job where job.id = any (heads) for update skip locked) as l;
  with moved as (
    update leasehold.job set blocked = false, available_at = greatest(job.available_at, at)
    where job.id = any (locked) and job.blocked and job.claim_id is null and (
      select true from leasehold.dead_letter d
      where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq < job.key_seq
      limit 1
    ) is null and (is_completion and not is_open or (
      -- Since the look above a dead letter that blocked the key may have been redriven: it comes first. Behind a job that is completed
      -- there is none in front, but in a caller's transaction it may be one that was left of a claim that was swept.
      select true from leasehold.job ahead
      where ahead.queue = job.queue and ahead.partition_key = job.partition_key and ahead.key_seq < job.key_seq
        and (ahead.claim_id is null or (select q.ordered from leasehold.queue q where q.name = ahead.queue))
      limit 1
    ) is null)
    returning job.queue, job.line, job.available_at
  )
  select count(*), array_agg(moved.queue) filter (where moved.available_at <= at),
    array_agg(moved.line) filter (where moved.available_at <= at) into let_in, woken, woken_lines from moved;
  if woken is not null then
    perform leasehold.wake_lines(woken, woken_lines);
  end if;
  if cardinality(locked) = cardinality(queues) then
    return let_in;
  end if;
  -- The others: the key is empty, as far as this transaction sees, or its head is locked.
  insert into leasehold.order_check (queue, key)
  select k.queue, k.key from unnest(queues, keys, heads) as k (queue, key, head)
  where k.head is not null and k.head <> all (coalesce(locked, '{}'));
  select array_agg(k.queue), array_agg(k.key), array_agg(k.ordered), array_agg(k.from_seq)
  into no_queues, no_keys, ordered, from_seqs
  from unnest(queues, keys, heads, ordered, from_seqs) as k (queue, key, head, ordered, from_seq) where k.head is null;
  if no_queues is null then
    return let_in;
  end if;
  if is_open then
    insert into leasehold.order_check (queue, key) select k.queue, k.key from unnest(no_queues, no_keys) as k (queue, key);
    perform leasehold.wake(array(select distinct k.queue from unnest(no_queues) as k (queue)));
    return let_in;
  end if;
  -- A producer that has the row of the key may have stored a job behind what has just left.
  select array_agg(o.queue), array_agg(o.key), array_agg(k.ordered), array_agg(k.from_seq)
  into idle_queues, idle_keys, ordered, from_seqs
  from unnest(no_queues, no_keys, ordered, from_seqs) as k (queue, key, ordered, from_seq)
  cross join lateral (
    select order_key.queue, order_key.key from leasehold.order_key
    where order_key.queue = k.queue and order_key.key = k.key
    for update skip locked
  ) o;
  if cardinality(idle_queues) is distinct from cardinality(no_queues) then
    insert into leasehold.order_check (queue, key)
    select k.queue, k.key from unnest(no_queues, no_keys) as k (queue, key)
    where not exists (
      select from unnest(idle_queues, idle_keys) as i (queue, key) where i.queue = k.queue and i.key = k.key
    ) and (select true from leasehold.order_key o where o.queue = k.queue and o.key = k.key limit 1);
  end if;
  -- With the row of the key locked, no producer can add to it: what is empty now stays so until this transaction commits. One may
  -- have committed since the first look.
  with looked as materialized (
    select k.*, (
      select true from leasehold.job
      where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq
        and (k.ordered or job.claim_id is null)
      limit 1
    ) is true as is_used, (
      select true from leasehold.dead_letter d where d.blocks_key and d.queue = k.queue and d.partition_key = k.key limit 1
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
    delete from leasehold.order_key
    where order_key.queue = of_queue and order_key.key = any (array(
      select i.key from unnest(idle_queues, idle_keys) as i (queue, key) where i.queue = of_queue
    ));
  end loop;
  return let_in + leasehold.advance(queues, keys, case when is_completion then from_seqs end);
end
$$;

-- Called by finish() when jobs of ordered queues have left: by which status, and of each its key, its place and its claim. What
-- did not succeed ends its run; then the next job of each key is let in, or parked. What succeeded must not leave before one of its
-- run that ran before it: then this raises no_data_found, and the caller completes none of them.
create function leasehold.leave_keys(
  status leasehold.job_status, queues text[], keys text[], seqs bigint[], claims bigint[], from_seqs bigint[]
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  place integer;
begin
  if status <> 'completed' then
    for place in 1 .. cardinality(queues) loop
      if claims[place] is not null then
        perform leasehold.return_rest(claims[place], queues[place], keys[place], seqs[place]);
      end if;
    end loop;
  end if;
  if status = 'dead_letter' then
    perform leasehold.park_behind(queues, keys);
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
      select from leasehold.job
      where job.queue = k.queue and job.partition_key = k.key and job.key_seq >= k.from_seq and job.key_seq < k.seq
      limit 1
    ) ahead
    limit 1
  ) then
    raise no_data_found;
  end if;
  perform leasehold.advance(queues, keys, from_seqs);
end
$$;

-- Looks again at keys of these queues that advance() could not judge. Returns how many jobs were let in. A key that still cannot be
-- judged stays as it is, and nothing is written, since every claim looks while that is so: one that is empty but for a producer that
-- has not committed, one whose first job is locked, and one whose first job is left of a claim that was swept, behind what is a dead
-- letter by now.
create function leasehold.check_order(queues text[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
declare
  at_queues text[];
  at_keys text[];
begin
  with due as (
    delete from leasehold.order_check
    where order_check.id = any (array(
      select c.id from leasehold.order_check c
      left join lateral (
        select true as is_free from leasehold.order_key o where o.queue = c.queue and o.key = c.key for update skip locked
      ) k on true
      left join lateral (
        select job.id, job.claim_id, job.key_seq from leasehold.job
        where job.queue = c.queue and job.partition_key = c.key and job.key_seq is not null and (
          job.claim_id is null or (select q.ordered from leasehold.queue q where q.name = c.queue)
        )
        order by job.key_seq
        limit 1
      ) head on true
      left join lateral (
        select true as is_free from leasehold.job where job.id = head.id for update skip locked
      ) h on true
      where c.queue = any (queues) and (
        head.id is null or h.is_free and (head.claim_id is null or (
          select true from leasehold.dead_letter d
          where d.blocks_key and d.queue = c.queue and d.partition_key = c.key and d.key_seq < head.key_seq
          limit 1
        ) is null)
      ) and (
        k.is_free
        or (
          select j.blocked from leasehold.job j
          where j.queue = c.queue and j.partition_key = c.key and j.key_seq is not null and j.claim_id is null
          order by j.key_seq
          limit 1
        )
        or (select true from leasehold.order_key o where o.queue = c.queue and o.key = c.key limit 1) is null
      )
      order by c.id
      limit 1000
      for update of c skip locked
    ))
    returning order_check.queue, order_check.key
  )
  select array_agg(due.queue), array_agg(due.key) into at_queues, at_keys from due;
  perform leasehold.park_behind(at_queues, at_keys);
  return leasehold.advance(at_queues, at_keys);
end
$$;

-- A job of a run did not succeed: those behind it, which the same claim holds and which have not started, are pending again, as if
-- never claimed; one whose cancellation was requested is cancelled. So at any time the jobs of a key that are claimed are its first
-- ones, under one claim. This may wait for a
-- cancellation or a sweep that looks at one of them; neither waits for anything.
create function leasehold.return_rest(
  under_claim bigint, of_queue text, of_key text, behind bigint
) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  rest bigint[];
  to_cancel bigint[];
  reasons text[];
begin
  if not exists (select from leasehold.queue q where q.name = of_queue and q.ordered) then
    return;
  end if;
  -- Mostly there is none, which the next job of the key shows.
  if (
    select j.claim_id from leasehold.job j
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
    select job.id, job.cancel_requested_at, job.cancel_reason from leasehold.job
    where job.id = any ((select c.job_ids from leasehold.claim c where c.id = under_claim)::bigint[])
      and job.claim_id = under_claim and job.queue = of_queue and job.partition_key = of_key and job.key_seq > behind
    order by job.key_seq
    for update
  ) as l;
  update leasehold.job set claim_id = null, claimed_at = null, attempts = job.attempts - 1, blocked = true
  where job.id = any (rest);
  perform leasehold.finish('cancelled', to_cancel, null, reasons, lets_in => false);
end
$$;

-- The jobs behind a parked dead letter become dead letters, too, at most a thousand of each key; for the others the key is looked
-- at again.
create function leasehold.park_behind(queues text[], keys text[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  parked record;
  ids bigint[];
  reasons text[];
  moved integer := 0;
begin
  for parked in
    select distinct k.queue, k.key from unnest(queues, keys) as k (queue, key)
    join leasehold.queue q on q.name = k.queue and q.ordered and q.on_dead_letter = 'park'
    where (
      select true from leasehold.dead_letter d where d.blocks_key and d.queue = k.queue and d.partition_key = k.key limit 1
    )
  loop
    -- With the row of the key locked no redrive is under way: what it has revived must not be parked again.
    perform from leasehold.order_key o where o.queue = parked.queue and o.key = parked.key for update skip locked;
    if found then
      select array_agg(l.id), array_agg('parked'::text) into ids, reasons
      from (
        select job.id from leasehold.job
        where job.queue = parked.queue and job.partition_key = parked.key and job.claim_id is null and job.key_seq > (
          select d.key_seq from leasehold.dead_letter d
          where d.blocks_key and d.queue = parked.queue and d.partition_key = parked.key
          order by d.key_seq
          limit 1
        )
        order by job.key_seq
        limit 1000
        for update skip locked
      ) as l;
      moved := moved + leasehold.finish('dead_letter', ids, null, reasons, lets_in => false);
      -- More than a thousand, one that another transaction has locked, or one that is left of a claim that was swept in part.
      continue when not exists (
        select from leasehold.job
        where job.queue = parked.queue and job.partition_key = parked.key and job.key_seq > (
          select d.key_seq from leasehold.dead_letter d
          where d.blocks_key and d.queue = parked.queue and d.partition_key = parked.key
          order by d.key_seq
          limit 1
        )
      );
    end if;
    insert into leasehold.order_check (queue, key) values (parked.queue, parked.key);
  end loop;
  return moved;
end
$$;

-- The jobs that follow these heads in their keys, as long as each can run now: due, of a kind that was asked for, not asked to be
-- cancelled, never crashed, and not behind a dead letter that blocks the key. With their heads there are a thousand at most; heads
-- beyond that are left out. All are locked when this returns. A run ends before a job that another transaction has locked, since that job may stay.
--
-- Of a fair queue the rest of max_jobs is shared by its keys, however long a run may be. `more`: one had as many as it may.
create function leasehold.with_runs(
  heads bigint[], kinds text[], run_length integer, max_jobs integer, ordered_queues text[], out ids bigint[], out more boolean
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_sort = off
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := leasehold.clock();
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
            select d.key_seq from leasehold.dead_letter d
            where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq > job.key_seq
            order by d.key_seq
            limit 1
          ) as blocked_from
        from leasehold.job where job.id = h.id limit 1
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
        from leasehold.job
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
    select job.id from leasehold.job where job.id = any (followers) and job.claim_id is null and job.crashes = 0
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
    select h.id from unnest(heads) as h (id) where (select job.key_seq is null from leasehold.job where job.id = h.id)
  );
end
$$;

-- These jobs were claimed: of each key of a fair queue among them the next one is let in.
create function leasehold.take_turns(claimed bigint[], ordered_queues text[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  queues text[];
  keys text[];
begin
  with held as materialized (
    select j.queue, j.partition_key, j.key_seq from leasehold.job j where j.id = any (claimed)
  )
  select array_agg(h.queue), array_agg(h.partition_key) into queues, keys
  from held h where h.key_seq is not null and h.queue <> all (ordered_queues);
  perform leasehold.advance(queues, keys);
end
$$;

-- Stores jobs of ordered queues, and of any other queue in the same call. Arrays as of the other enqueues; idempotency_keys
-- and keep_key_ms are null, or name a key for each job; must_be_ordered names queues that the caller takes for ordered.
--
-- Locks the row of each key first, in one order, and only then draws key_seq: drawn before, a job of a transaction that commits
-- later could come first. Two transactions that enqueue for two keys in several calls each, in opposite orders, can deadlock.
-- Returns the id of each job by its position; null: its idempotency key is taken.
create function leasehold.enqueue_in_order(
  queues text[], kinds text[], payloads text[], priorities smallint[], max_attempts smallint[], buckets smallint[],
  delays_ms double precision[], more jsonb[], idempotency_keys text[] default null,
  keep_key_ms double precision[] default null, must_be_ordered text[] default null
) returns table (place bigint, job_id bigint)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
#variable_conflict use_column
declare
  at constant timestamptz := leasehold.clock();
  ordered_queues constant text[] := array(
    select q.name from leasehold.queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name);
  ring_queues constant text[] := array(
    select q.name from leasehold.queue q where q.by_key and q.ring is not null and q.name = any (queues));
  fair_queues constant text[] := array(
    select q.name from leasehold.queue q where q.by_key and q.fair and q.name = any (queues));
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
      select nextval('leasehold.job_id') as id, i.* from unnest(queues, idempotency_keys, keep_key_ms, payloads)
        with ordinality as i (queue, key, keep_ms, payload, place)
    ), kept as (
      insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
      select i.queue, i.key, i.id, i.keep_ms * interval '1 ms', leasehold.input_hash(i.payload::jsonb),
        leasehold.key_due_at(i.keep_ms * interval '1 ms')
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
    insert into leasehold.order_key (queue, key)
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
          select true from leasehold.job
          where job.queue = k.queue and job.partition_key = k.key and job.key_seq is not null and job.claim_id is null
          order by job.key_seq desc
          limit 1
        ) or (
          select true from leasehold.dead_letter b
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
        select q.name from leasehold.queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name)
    ), drawn as materialized (
      -- An id that was drawn before the key was locked is no place in it.
      select i.*, coalesce(i.id, i.drawn) as job_id,
        case when i.in_key then i.drawn end as key_seq
      from (
        select i.*, nextval('leasehold.job_id') as drawn from (select * from input order by input.place) as i
      ) as i
    ), added as (
      insert into leasehold.job (id, available_at, created_at, max_attempts, priority, partition_bucket, expires_at, queue,
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
      insert into leasehold.order_check (queue, key)
      select distinct a.queue, a.partition_key from added a join leasehold.queue q on q.name = a.queue
      where a.blocked and q.on_dead_letter = 'park' and (
        select true from leasehold.dead_letter b
        where b.blocks_key and b.queue = a.queue and b.partition_key = a.partition_key
        limit 1
      )
    ), woken as (
      -- Also for a job that is blocked: what is in front of it may have left before this commits, and then a claim has to look.
      select leasehold.wake_lines(array_agg(a.queue), array_agg(a.line)) as done from (
        select distinct a.queue, a.line from added a where a.available_at <= at
      ) as a
    )
    select d.place, d.job_id from drawn d cross join woken;
  -- set_ordered() waits for those that have written to job, and this had not. From here on it has.
  if ordered_queues <> array(
    select q.name from leasehold.queue q where q.by_key and q.ordered and q.name = any (queues) order by q.name
  ) then
    raise exception 'whether a queue is ordered has changed meanwhile' using
      errcode = 'serialization_failure', hint = 'Send it again.';
  end if;
end
$$;

-- The same for jobs of one ordered queue that differ in nothing but their input and their key, as most calls have it: a third of
-- the work. The inputs are one JSON array, and so are the keys. Null: the queue is not ordered, and nothing was stored. Unless it
-- must be ordered, a queue that is on the ring and not ordered takes them as well.
-- The ids are drawn first, and the arrays are expanded side by side in a select list: with the ids returned by the insert, and
-- the arrays expanded in FROM, each row was copied three times on its way, a fifth of the whole.
create function leasehold.enqueue_alike_in_order(
  of_queue text, of_kind text, inputs text, of_priority smallint, attempts_at_most smallint, buckets smallint[],
  delay_ms double precision, partition_keys text, must_be_ordered boolean default true
) returns bigint[]
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
as $$
declare
  at constant timestamptz := leasehold.clock();
  available constant timestamptz := leasehold.clock() + delay_ms * interval '1 ms';
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
  from leasehold.queue q where q.by_key and not q.fair and q.name = of_queue;
  if not found or must_be_ordered and not is_ordered then
    return null;
  end if;
  if not is_ordered then
    -- By bucket, so that jobs that one worker claims lie beside each other in the table and in its indexes.
    with input as (
      select generate_series(1, cardinality(keys)) as nth, unnest(buckets) as bucket, jsonb_array_elements(inputs::jsonb) as payload,
        unnest(keys) as key
    ), drawn as materialized (
      select nextval('leasehold.job_id') as id, i.* from (select * from input order by input.bucket, input.nth) as i
    ), added as (
      insert into leasehold.job (id, available_at, created_at, max_attempts, priority, partition_bucket, queue, kind, payload,
        partition_key, line)
      select d.id, available, at, attempts_at_most, of_priority, d.bucket, of_queue, of_kind, d.payload, d.key, d.bucket + 1
      from drawn d
    )
    select coalesce(array_agg(d.id order by d.nth), '{}') into ids from drawn d;
    -- As at the end of enqueue_in_order().
    if (select q.ordered or q.fair from leasehold.queue q where q.name = of_queue) is not false then
      raise exception 'whether a queue is ordered has changed meanwhile' using
        errcode = 'serialization_failure', hint = 'Send it again.';
    end if;
    if delay_ms <= 0 then
      perform leasehold.wake_lines(array_agg(of_queue), array_agg(b.bucket + 1)) from unnest(buckets) as b (bucket);
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
      insert into leasehold.order_key (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key);
      free_places := first_places;
    exception when unique_violation then
      null;
    end;
  end if;
  if free_places is null then
    with locked as (
      insert into leasehold.order_key (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key)
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
  ids := array(select nextval('leasehold.job_id') from generate_series(1, cardinality(keys)));
  insert into leasehold.job (id, available_at, created_at, max_attempts, priority, partition_bucket, queue, kind, payload,
    partition_key, key_seq, blocked, line)
  select i.id, available, at, attempts_at_most, of_priority, i.bucket, of_queue, of_kind, i.payload, i.key, i.id, i.is_blocked,
    case when on_ring then i.bucket + 1 else 0 end
  from (
    select unnest(ids) as id, jsonb_array_elements(inputs::jsonb) as payload, unnest(buckets) as bucket, unnest(keys) as key,
      unnest(blocks) as is_blocked
  ) as i;
  -- What is parked behind a dead letter is moved by a check.
  if parks and exists (select from leasehold.dead_letter b where b.blocks_key and b.queue = of_queue) then
    insert into leasehold.order_check (queue, key) select of_queue, k.key from unnest(distinct_keys) as k (key);
  end if;
  -- Also for jobs that are blocked: what is in front may have left before this commits, and then a claim has to look.
  if delay_ms <= 0 then
    if on_ring then
      perform leasehold.wake_lines(array_agg(of_queue), array_agg(b.bucket + 1)) from unnest(buckets) as b (bucket);
    else
      perform leasehold.wake(array[of_queue]);
    end if;
  end if;
  return ids;
end
$$;

-- Dead letters of ordered queues become jobs again. One that blocks its key goes where it was, in front; what was parked behind it
-- comes along, at most ten thousand of a key. Any other goes to the back of its key, which has moved on.
create function leasehold.redrive_in_order(ids bigint[]) returns table (job_id bigint, queue text, kind text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  queues text[];
  keys text[];
begin
  with letters as materialized (
    select d.queue, d.partition_key as key from leasehold.dead_letter d where d.id = any (ids)
  )
  select array_agg(k.queue), array_agg(k.key) into queues, keys
  from (select distinct l.queue, l.key from letters l order by 1, 2) as k;
  if queues is null then
    return;
  end if;
  insert into leasehold.order_key (queue, key)
  select k.queue, k.key from unnest(queues, keys) as k (queue, key)
  on conflict (queue, key) do update set reused = true;
  return query
    with picked as materialized (
      select d.id from leasehold.dead_letter d where d.id = any (ids || array(
        select parked.id from unnest(queues, keys) as k (queue, key)
        cross join lateral (
          select b.id from leasehold.dead_letter b
          where b.blocks_key and b.queue = k.queue and b.partition_key = k.key and b.reason = 'parked'
          order by b.key_seq
          limit 10000
        ) parked
      ))
      for update skip locked
    ), revived as (
      delete from leasehold.dead_letter d where d.id = any (array(select picked.id from picked)) returning *
    ), added as (
      insert into leasehold.job (id, available_at, created_at, lease_generation, max_attempts, crashes, priority,
        partition_bucket, line, salt, blocked, parent_id, queue, kind, payload, partition_key, idempotency_key, metadata, key_seq)
      select r.id, leasehold.clock(), r.created_at, r.lease_generation, r.max_attempts,
        case r.reason when 'lease_expired' then greatest(r.crashes, 2) else 0 end, r.priority, r.partition_bucket,
        leasehold.line(r.queue, r.partition_key, r.partition_bucket), r.salt,
        true, r.parent_id, r.queue, r.kind, r.payload, r.partition_key, r.idempotency_key, r.metadata,
        case when r.blocks_key then r.key_seq else nextval('leasehold.job_id') end
      from (select * from revived order by revived.key_seq) as r
      returning job.id, job.queue, job.kind
    )
    select added.id, added.queue, added.kind from added;
  perform leasehold.advance(queues, keys);
end
$$;

-- The dead letters of this key are in its way no more, and stay dead letters. Returns how many were.
create function leasehold.unblock(of_queue text, of_key text) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  cleared integer;
begin
  update leasehold.dead_letter d set blocks_key = false
  where d.blocks_key and d.queue = of_queue and d.partition_key = of_key;
  get diagnostics cleared = row_count;
  perform leasehold.advance(array[of_queue], array[of_key]);
  return cleared;
end
$$;

-- Keys that have jobs which wait behind another: how many, behind what, and since when.
create view leasehold.blocked_keys as
  select k.queue, k.key, waiting.jobs as waiting, front.job_id, front.why, front.since
  from leasehold.order_key k
  join leasehold.queue q on q.name = k.queue and q.ordered
  cross join lateral (
    select front.* from (
      (select d.id as job_id, 'dead_letter'::text as why, d.died_at as since, d.key_seq
        from leasehold.dead_letter d
        where d.blocks_key and d.queue = k.queue and d.partition_key = k.key
        order by d.key_seq limit 1)
      union all
      (select j.id, case when j.claim_id is not null then 'processing'
          when j.available_at > leasehold.clock() then case when j.attempts > 0 then 'retrying' else 'scheduled' end
          else 'ready' end, coalesce(j.claimed_at, least(j.available_at, leasehold.clock())), j.key_seq
        from leasehold.job j
        where j.queue = k.queue and j.partition_key = k.key and j.key_seq is not null
        order by j.key_seq limit 1)
    ) as front
    order by front.key_seq
    limit 1
  ) front
  cross join lateral (
    select count(*) as jobs from leasehold.job j
    where j.queue = k.queue and j.partition_key = k.key and j.key_seq > front.key_seq
  ) waiting
  where waiting.jobs > 0 or front.why = 'dead_letter';

-- Whether these queues are ordered. It cannot change while jobs of the queue are unfinished: they would have no place in their
-- keys, or keep it. The lock waits for every transaction that has enqueued and not committed, and makes new ones wait for two
-- seconds at most: a statement that begins after it sees the change.
create function leasehold.set_ordered(names text[], ordered boolean[]) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  changed text[];
  used text;
begin
  select array_agg(i.name order by i.name) into changed
  from unnest(names, ordered) as i (name, ordered)
  where i.ordered is distinct from coalesce((select q.ordered from leasehold.queue q where q.name = i.name), false);
  if changed is null then
    return;
  end if;
  lock table leasehold.job in share row exclusive mode;
  select min(c.name) into used from unnest(changed) as c (name)
  where exists (select from leasehold.job j where j.queue = c.name and not j.blocked and j.crashes = 0)
    or exists (select from leasehold.job j where j.queue = c.name and not j.blocked and j.crashes > 0)
    or exists (select from leasehold.job j where j.queue = c.name and j.key_seq is not null);
  if used is not null then
    raise exception 'queue "%" has unfinished jobs, so whether it is ordered cannot change', used using
      errcode = 'LH004', hint = 'Let workers finish them, or use another queue.';
  end if;
  insert into leasehold.queue (name, ordered, fair)
  select i.name, i.ordered, false from unnest(names, ordered) as i (name, ordered) where i.name = any (changed) order by i.name
  on conflict (name) do update set ordered = excluded.ordered, fair = excluded.fair;
end
$$;
