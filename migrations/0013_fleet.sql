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


