-- serves code from: 1
--
-- The effects of jobs, and the receiver's inbox: work that runs twice has its effect once (decisions/0021, 0036).

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

-- The receiver's inbox: one row for each event that was handled or became a job (decisions/0036). Each row knows when it may be
-- forgotten: later than its transport can redeliver the event. duplicates is in no index and pages have room, so counting a
-- duplicate is a heap-only update.
create table leasehold.inbox (
  received_at timestamptz not null,
  forget_at   timestamptz not null,
  duplicates  integer not null default 0,
  source      text not null,
  event_id    text not null,
  body_hash   bytea,
  constraint inbox_pkey primary key (source, event_id)
) with (fillfactor = 90, vacuum_truncate = off);

create index inbox_to_forget on leasehold.inbox (forget_at);

-- Records an event in the caller's transaction: new, duplicate, or conflict if the id is known with another body.
-- The insert is the lock: it waits for a transaction that has inserted the same id, wait_ms at most (SQLSTATE 55P03), and then sees
-- whether that has committed. The look before it is for duplicates: an insert would wait for a transaction that has counted
-- another duplicate of the id, and two could wait for each other. A count that another session is changing is left as it is.
-- The SET clause of lock_timeout ends with the function, and so does the setting made inside.
create function leasehold.receive(source text, event_id text, body_hash bytea, keep_ms float8, wait_ms integer)
returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set lock_timeout = 0
as $$
declare
  known bytea;
begin
  for attempt in 1 .. 2 loop
    select i.body_hash into known from leasehold.inbox i
    where i.source = receive.source and i.event_id = receive.event_id;
    if found then
      if known <> receive.body_hash then
        return 'conflict';
      end if;
      update leasehold.inbox set duplicates = duplicates + 1
      where ctid = any (array(
        select i.ctid from leasehold.inbox i
        where i.source = receive.source and i.event_id = receive.event_id
        for update skip locked
      ));
      return 'duplicate';
    end if;
    perform set_config('lock_timeout', receive.wait_ms::text, true);
    insert into leasehold.inbox (source, event_id, received_at, forget_at, body_hash)
    values (receive.source, receive.event_id, leasehold.clock(), leasehold.clock() + receive.keep_ms * interval '1 ms',
      receive.body_hash)
    on conflict on constraint inbox_pkey do nothing;
    if found then
      return 'new';
    end if;
  end loop;
  -- It was there at the insert, and was pruned before the second look.
  return 'duplicate';
end $$;
