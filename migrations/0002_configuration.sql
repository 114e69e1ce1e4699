-- serves code from: 1
--
-- The configuration of queues and kinds, and the registry of workers (decisions/0025). Queues and kinds are stored by
-- configure(), in a deploy step; a worker never writes them. Every column may be null or at its default: a queue or kind
-- that was never configured behaves as if these tables were empty.

-- `ring`: how the buckets of the queue are divided among workers; off: they were, and there may be jobs in its lines
-- (0014_ring.sql). by_key: an enqueue has to look at the keys of its jobs.
create table leasehold.queue (
  name           text not null,
  ordered        boolean not null default false,
  fair           boolean not null default false,
  on_dead_letter text not null default 'block',
  wakes          boolean not null default true,
  ring           text,
  by_key         boolean not null generated always as (ordered or fair or ring is not null) stored,
  constraint queue_pkey primary key (name),
  constraint on_dead_letter_is_known check (on_dead_letter in ('block', 'skip', 'park')),
  constraint ring_is_known check (ring in ('consistent', 'rendezvous', 'modulo', 'off')),
  constraint ordered_or_fair check (not (ordered and fair))
);

-- The line of a job (0001_jobs.sql).
create function leasehold.line(of_queue text, key text, bucket smallint) returns smallint
  language sql stable
  return case when key is not null and exists (
    select from leasehold.queue q where q.by_key and q.ring is not null and q.name = of_queue
  ) then (bucket + 1)::smallint else 0::smallint end;

-- Every enqueue reads this index.
create index queue_by_key on leasehold.queue (name) where by_key;

-- `keep` is how long a completed job is kept; zero: not at all. Null in any column: the library's default.
create table leasehold.kind (
  name         text not null,
  queue        text,
  priority     smallint,
  max_attempts smallint,
  keep         interval,
  keep_key     interval,
  constraint kind_pkey primary key (name),
  constraint kind_priority_is_a_digit check (priority between 0 and 9),
  constraint kind_has_an_attempt check (max_attempts > 0)
);

-- The queues and kinds that are paused. Every claim reads it, and mostly it is empty. Without an index that costs next to nothing;
-- an index scan reserves 40 kB in the backend and took 8 µs of a claim.
create table leasehold.pause (
  queue text,
  kind  text,
  at    timestamptz not null,
  by    text,
  constraint pause_is_of_a_queue_or_a_kind check (num_nonnulls(queue, kind) = 1)
);

-- Pauses or resumes, and returns whether that changed anything. Of two operators at once the second waits for the first. Claims
-- read the table without waiting.
create function leasehold.set_paused(of_queue text, of_kind text, paused_by text, paused boolean) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  lock table leasehold.pause in share row exclusive mode;
  if paused then
    insert into leasehold.pause (queue, kind, at, by) select of_queue, of_kind, leasehold.clock(), paused_by
    where not exists (select from leasehold.pause p where p.queue = of_queue or p.kind = of_kind);
  else
    delete from leasehold.pause p where p.queue = of_queue or p.kind = of_kind;
  end if;
  return found;
end
$$;

-- How long rows are kept that belong to no kind. One row, the same for every worker.
create table leasehold.settings (
  id                integer not null default 1,
  keep_dead_letters interval not null default '30 days',
  keep_attempts     interval not null default '7 days',
  keep_effects      interval not null default '72 hours',
  keep_workers      interval not null default '90 days',
  keep_events       interval not null default '7 days',
  constraint settings_pkey primary key (id),
  constraint settings_are_one_row check (id = 1)
);

insert into leasehold.settings (id) values (1);

-- Worker processes, idle ones included. A row outlives its process, so that the history of a job names its worker. A beat changes
-- only columns that no index mentions, so it is a heap-only update. `mode` is how its jobs are run: worker, drain, once or
-- by_hand. A process that claims by hand does not beat: it is seen when it claims.
create table leasehold.worker (
  id                 uuid not null,
  label              text not null,
  version            text not null,
  mode               text not null default 'worker',
  host               text,
  pid                integer,
  kinds              text[] not null,
  queues             text[] not null,
  started_at         timestamptz not null,
  last_seen_at       timestamptz not null,
  draining_at        timestamptz,
  dead_at            timestamptz,
  stopped_at         timestamptz,
  held               integer,
  running            integer,
  event_loop_ms      double precision,
  rates              jsonb,
  memory_bytes       bigint,
  memory_limit_bytes bigint,
  constraint worker_pkey primary key (id),
  constraint worker_mode_is_known check (mode in ('worker', 'drain', 'once', 'by_hand'))
) with (fillfactor = 50);

create sequence leasehold.operator_action_id as bigint;

-- Operator actions: cancel, redrive, pause, resume, settle. Kept as long as workers are.
create table leasehold.operator_action (
  id      bigint not null default nextval('leasehold.operator_action_id'),
  at      timestamptz not null,
  action  text not null,
  by      text,
  outcome text not null,
  job_id  bigint,
  queue   text,
  kind    text,
  detail  text,
  constraint operator_action_pkey primary key (id),
  constraint action_is_known check (action in ('cancel', 'redrive', 'pause', 'resume', 'settle_effect', 'unblock', 'replay',
    'terminate'))
);

create index operator_action_by_job on leasehold.operator_action (job_id) where job_id is not null;

create index operator_action_by_age on leasehold.operator_action (at);
