-- serves code from: 1
--
-- The configuration of queues and kinds, and the registry of workers (decisions/0025). Queues and kinds are stored by
-- configure(), in a deploy step; a worker never writes them. Every column may be null or at its default: a queue or kind
-- that was never configured behaves as if these tables were empty.

create table leasehold.queue (
  name           text not null,
  paused_at      timestamptz,
  paused_by      text,
  ordered        boolean not null default false,
  fair           boolean not null default false,
  on_dead_letter text not null default 'block',
  wakes          boolean not null default true,
  constraint queue_pkey primary key (name),
  constraint on_dead_letter_is_known check (on_dead_letter in ('block', 'skip', 'park')),
  constraint ordered_or_fair check (not (ordered and fair)),
  constraint only_a_paused_queue_was_paused_by check (paused_by is null or paused_at is not null)
);

-- Every claim reads this index, so it holds the paused queues alone.
create index queue_paused on leasehold.queue (name) where paused_at is not null;

-- Every enqueue reads this index.
create index queue_by_key on leasehold.queue (name) where ordered or fair;

-- `keep` is how long a completed job is kept; zero: not at all. Null in any column: the library's default.
create table leasehold.kind (
  name         text not null,
  queue        text,
  priority     smallint,
  max_attempts smallint,
  keep         interval,
  keep_key     interval,
  paused_at    timestamptz,
  paused_by    text,
  constraint kind_pkey primary key (name),
  constraint kind_priority_is_a_digit check (priority between 0 and 9),
  constraint kind_has_an_attempt check (max_attempts > 0),
  constraint only_a_paused_kind_was_paused_by check (paused_by is null or paused_at is not null)
);

create index kind_paused on leasehold.kind (name) where paused_at is not null;

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

-- Worker processes, idle ones included. A row outlives its process, so that the history of a job names its worker.
create table leasehold.worker (
  id           uuid not null,
  label        text not null,
  version      text not null,
  kinds        text[] not null,
  queues       text[] not null,
  started_at   timestamptz not null,
  last_seen_at timestamptz not null,
  stopped_at   timestamptz,
  constraint worker_pkey primary key (id)
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
  constraint action_is_known check (action in ('cancel', 'redrive', 'pause', 'resume', 'settle_effect', 'unblock', 'replay'))
);

create index operator_action_by_job on leasehold.operator_action (job_id) where job_id is not null;

create index operator_action_by_age on leasehold.operator_action (at);
