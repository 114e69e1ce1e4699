-- serves code from: 1
--
-- The effects of jobs, and the handled messages: work that runs twice has its effect once (decisions/0021).

-- The salt is the job's: a job that got the id of another from a sequence that was set back does not find its effects.
-- A row without finished_at was begun by that run, in that generation; whether it happened, only its worker knows. An effect
-- can be begun again in one generation, so a run's report names the run. The columns that change are in no index,
-- and pages have room for the second version.
create table leasehold.effect (
  job_id           bigint not null,
  lease_generation bigint not null,
  salt             integer not null,
  started_at       timestamptz not null,
  finished_at      timestamptz,
  run_id           uuid not null default gen_random_uuid(),
  name             text not null,
  result           jsonb,
  constraint effect_pkey primary key (job_id, name, salt),
  constraint only_what_is_done_has_a_result check (result is null or finished_at is not null)
) with (fillfactor = 70, vacuum_truncate = off);

-- Each row knows when it may be forgotten: longer than its queue can deliver the message again.
create table leasehold.processed_message (
  source       text not null,
  message_id   text not null,
  processed_at timestamptz not null,
  forget_at    timestamptz not null,
  constraint processed_message_pkey primary key (source, message_id)
);

create index processed_message_to_forget on leasehold.processed_message (forget_at);
