-- serves code from: 1
--
-- The fleet: which workers joined, left, died and returned. The registry itself is the table worker (0002_configuration.sql).

create sequence leasehold.fleet_event_id as bigint;

-- What happened to the fleet. Kept as long as workers are.
create table leasehold.fleet_event (
  id        bigint not null default nextval('leasehold.fleet_event_id'),
  at        timestamptz not null,
  what      text not null,
  worker_id uuid,
  label     text,
  detail    jsonb,
  constraint fleet_event_pkey primary key (id),
  constraint fleet_event_is_known check (what in ('joined', 'draining', 'left', 'died', 'returned', 'ring', 'gained', 'lost'))
);

create index fleet_event_by_age on leasehold.fleet_event (at);

-- Part of the statement that makes it so: an event stands exactly when that commits.
create function leasehold.note_fleet(what text, worker_id uuid, label text, detail jsonb default null) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  insert into leasehold.fleet_event (at, what, worker_id, label, detail)
  values (leasehold.clock(), note_fleet.what, note_fleet.worker_id, note_fleet.label, note_fleet.detail);
  return true;
end
$$;

-- For the lists of workers that have ended. No beat changes these columns.
create index worker_stopped on leasehold.worker (stopped_at) where stopped_at is not null;

create index worker_dead on leasehold.worker (dead_at) where dead_at is not null;

-- A worker registers before its first claim, when it handles a new kind, and when its beat finds no row to change: the row was
-- deleted, or the worker was noted as dead. Returns joined, returned or known; a repeat after a lost reply returns known. The log
-- of the fleet names those that stay: drain() and runOnce() may come and go every second.
create function leasehold.register_worker(
  worker_id uuid, label text, version text, mode text, host text, pid integer, kinds text[], queues text[],
  memory_limit_bytes bigint, drains boolean
) returns text
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  now constant timestamptz := leasehold.clock();
  drains_since timestamptz := case when drains then now end;
  was record;
begin
  loop
    insert into leasehold.worker (id, label, version, mode, host, pid, kinds, queues, started_at, last_seen_at, draining_at,
      memory_limit_bytes)
    values (worker_id, register_worker.label, register_worker.version, register_worker.mode, register_worker.host,
      register_worker.pid, register_worker.kinds, register_worker.queues, now, now, drains_since,
      register_worker.memory_limit_bytes)
    on conflict (id) do nothing;
    if found then
      if register_worker.mode = 'worker' then
        perform leasehold.note_fleet('joined', worker_id, register_worker.label, jsonb_build_object(
          'version', register_worker.version, 'host', register_worker.host, 'pid', register_worker.pid,
          'kinds', register_worker.kinds, 'queues', register_worker.queues));
      end if;
      return 'joined';
    end if;
    select w.dead_at, w.draining_at, w.last_seen_at into was from leasehold.worker w where w.id = worker_id for update;
    continue when not found; -- pruned between the two statements
    drains_since := coalesce(was.draining_at, drains_since);
    update leasehold.worker
    set last_seen_at = now, dead_at = null, stopped_at = null, draining_at = drains_since,
      kinds = register_worker.kinds, queues = register_worker.queues
    where id = worker_id;
    if was.dead_at is null then
      return 'known';
    end if;
    perform leasehold.note_fleet('returned', worker_id, register_worker.label, jsonb_build_object(
      'dead_at', was.dead_at, 'silent_ms', round(extract(epoch from now - was.last_seen_at) * 1000)));
    return 'returned';
  end loop;
end
$$;

-- Notes the workers that have died: not seen for 15 s, three beats. `self` is the worker that looks, and so lives. Any number of
-- workers may call it at once, and each death is returned to one of them; rows that another session has locked are left to the
-- next call. A worker that was seen in the future was seen by a clock that has since jumped back, and is taken to be seen now.
create function leasehold.note_deaths(self uuid)
  returns table (worker_id uuid, label text, silent_ms double precision, held integer, running integer)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  now constant timestamptz := leasehold.clock();
begin
  update leasehold.worker set last_seen_at = now
  where id = any (array(
    select w.id from leasehold.worker w
    where w.stopped_at is null and w.dead_at is null and w.last_seen_at > now + interval '15 s'
    for update skip locked
  ));
  return query
    with died as (
      update leasehold.worker w set dead_at = now
      where w.id = any (array(
        select s.id from leasehold.worker s
        where s.stopped_at is null and s.dead_at is null and s.mode <> 'by_hand' and s.id <> self
          and s.last_seen_at <= now - interval '15 s'
        for update skip locked
      ))
      returning w.id, w.label, w.last_seen_at, w.held, w.running
    ), noted as materialized (
      select d.*, leasehold.note_fleet('died', d.id, d.label, jsonb_build_object('last_seen_at', d.last_seen_at,
        'held', d.held, 'running', d.running, 'noted_by', self)) as is_noted
      from died d
    )
    select n.id, n.label, extract(epoch from now - n.last_seen_at)::double precision * 1000, n.held, n.running
    from noted n where n.is_noted;
end
$$;

-- What happened to the fleet.
create view leasehold.fleet_events as
  select id, at, what, worker_id, label, detail from leasehold.fleet_event;
