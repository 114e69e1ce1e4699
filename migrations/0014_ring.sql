-- serves code from: 1
--
-- Which worker claims the jobs of which keys, in queues that are on the ring (decisions/0040).
--
-- A job with a key lies in the line of its bucket, and a worker asks only the lines that it owns. Owners follow from the seats that
-- are taken: every process computes the same map from the same seats. A change of seats begins an epoch. A worker in a new epoch
-- claims what it owned in the last one that it acknowledged, and owns still; when its claims are answered it acknowledges the new
-- one. What it gained it claims when every other seat has acknowledged an epoch in which that seat does not own it.
--
-- A seat is a lease on the database's clock. Its worker stops claiming from its lines before the lease can have expired. Should
-- two workers ask one line all the same, they pass over each other's rows as any two workers do: the ring decides who looks where,
-- and claims, fences and the order of keys decide the rest.

create table leasehold.seat (
  number     smallint not null,
  worker_id  uuid not null,
  label      text not null,
  weight     real not null,
  queues     text[] not null,
  epoch      bigint not null,
  taken_at   timestamptz not null,
  expires_at timestamptz not null,
  constraint seat_pkey primary key (number),
  constraint seat_number_is_known check (number between 1 and 1024)
) with (fillfactor = 50);

-- The last epochs: which seats were taken, for which queues, and how these divide their buckets. The salt distinguishes two epochs of
-- one number, before and after a failover.
create table leasehold.epoch (
  number     bigint not null,
  salt       integer not null default (floor(random() * 4294967296) - 2147483648)::integer,
  began_at   timestamptz not null,
  seats      jsonb not null,
  strategies jsonb not null,
  constraint epoch_pkey primary key (number)
);

-- The seats and strategies as they are now.
create function leasehold.seats_now() returns jsonb
  language sql stable
  set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_agg(jsonb_build_object('number', s.number, 'weight', s.weight, 'queues', to_jsonb(s.queues)) order by s.number), '[]')
  from leasehold.seat s
$$;

create function leasehold.strategies_now() returns jsonb
  language sql stable
  set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_object_agg(q.name, q.ring), '{}') from leasehold.queue q where q.by_key and q.ring is not null
$$;

-- Renews the seat of a worker, or takes one for it, if one of its queues is on the ring. `has` is the epoch that the worker
-- acknowledges, unless a failover has lost it. A worker that leaves gives its seat back. A beat deletes every expired seat that it finds.
-- Changes are made one after the other, by the lock of the epochs, which a beat that changes nothing does not take. A worker that waits
-- for it has locked the row of its own seat, so an expired seat whose worker is just renewing it is passed over. Returns null if no queue of the worker is on the ring;
-- otherwise its seat (null: the one it wants is taken), the epoch, and what other seats have acknowledged.
create function leasehold.ring_beat(
  of_worker uuid, of_label text, of_queues text[], of_weight real, wants smallint, lease_ms double precision, has bigint,
  has_salt integer, leaves boolean
) returns jsonb
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set lock_timeout = '2s'
as $$
declare
  at constant timestamptz := leasehold.clock();
  strategies constant jsonb := leasehold.strategies_now();
  on_ring constant boolean := exists (select from jsonb_each_text(strategies) as q where q.key = any (of_queues) and q.value <> 'off');
  mine smallint;
  had bigint;
  latest leasehold.epoch;
  acknowledges boolean := false;
  vacated record;
begin
  if not on_ring and not exists (select from leasehold.seat s where s.worker_id = of_worker) then
    if strategies ?| of_queues then
      return jsonb_build_object('strategies', strategies);
    end if;
    return null;
  end if;
  if on_ring and not leaves then
    select s.number, s.epoch into mine, had from leasehold.seat s
    where s.worker_id = of_worker and s.queues = of_queues and s.weight = of_weight;
    if had < has and exists (select from leasehold.epoch e where e.number = has and e.salt = has_salt) then
      -- No epoch begins until this is committed. Otherwise a gainer in that epoch could read what the seat had acknowledged before,
      -- while the seat's worker adds what it gained.
      lock table leasehold.epoch in row exclusive mode;
      had := has;
      acknowledges := true;
      perform leasehold.tell('ring', 'acknowledged');
    end if;
    update leasehold.seat s set expires_at = at + lease_ms * interval '1 ms', epoch = had where s.number = mine and s.worker_id = of_worker;
    if not found then
      mine := null;
    end if;
  end if;
  select e.* into latest from leasehold.epoch e order by e.number desc limit 1;
  if (mine is null and (wants is null or not exists (
      select from leasehold.seat s where s.number = wants and s.worker_id <> of_worker and s.expires_at > at
    )))
    -- Two that acknowledge at a time would wait for each other. The next beat changes what is to be changed.
    or (not acknowledges and (exists (select from leasehold.seat s where s.expires_at <= at)
      or latest.strategies is distinct from strategies or latest.seats is distinct from leasehold.seats_now())) then
    lock table leasehold.epoch in share row exclusive mode;
    for vacated in
      with gone as (
        delete from leasehold.seat where number = any (array(
          select s.number from leasehold.seat s where s.expires_at <= leasehold.clock() for update skip locked
        ))
        returning number, worker_id, label
      )
      select * from gone
    loop
      perform leasehold.note_fleet('lost', vacated.worker_id, vacated.label, jsonb_build_object('seat', vacated.number));
    end loop;
    if leaves or not on_ring then
      delete from leasehold.seat s where s.worker_id = of_worker;
      mine := null;
    else
      select s.number into mine from leasehold.seat s where s.worker_id = of_worker;
      if mine is null then
        -- The one it wants, or the first that is free: a worker that comes back takes the place of the one that left.
        select n.number into mine from generate_series(1, 1024) as n (number)
        where (wants is null or n.number = wants) and not exists (select from leasehold.seat s where s.number = n.number)
        order by n.number limit 1;
        insert into leasehold.seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
        select mine, of_worker, of_label, of_weight, of_queues, 0, at, at + lease_ms * interval '1 ms' where mine is not null;
      else
        update leasehold.seat s set weight = of_weight, queues = of_queues where s.worker_id = of_worker;
      end if;
    end if;
    select e.* into latest from leasehold.epoch e order by e.number desc limit 1;
    if latest.strategies is distinct from strategies or latest.seats is distinct from leasehold.seats_now() then
      insert into leasehold.epoch (number, began_at, seats, strategies)
      -- No seat has acknowledged it, also if rows of epochs were deleted by hand.
      select 1 + greatest(latest.number, max(s.epoch), 0), leasehold.clock(), leasehold.seats_now(), strategies from leasehold.seat s;
      select e.* into latest from leasehold.epoch e order by e.number desc limit 1;
      delete from leasehold.epoch e where e.number < latest.number - 100;
      perform leasehold.note_fleet('ring', of_worker, of_label,
        jsonb_build_object('epoch', latest.number, 'seats', latest.seats, 'strategies', strategies));
      perform leasehold.tell('ring', 'changed');
    end if;
    -- The worker of a new seat has claimed nothing yet, so it has nothing to hand over.
    update leasehold.seat s set epoch = latest.number where s.worker_id = of_worker and s.epoch = 0;
  end if;
  -- No lease is that long: the clock was set back. The seat of a worker that lives is renewed before this is over. Nothing is waited for
  -- from here on, so the rows of others may be locked.
  update leasehold.seat s set expires_at = at + interval '10 s' where s.number = any (array(
    select f.number from leasehold.seat f where f.expires_at > at + interval '15 s' for update skip locked
  ));
  return jsonb_build_object('seat', mine, 'epoch', latest.number, 'salt', latest.salt, 'strategies', strategies,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('seat', s.number, 'epoch', s.epoch)), '[]')
      from leasehold.seat s where s.worker_id <> of_worker and s.epoch < latest.number
    ),
    'epochs', (
      select jsonb_object_agg(e.number, jsonb_build_object('seats', e.seats, 'strategies', e.strategies))
      from leasehold.epoch e
      where e.number = latest.number or e.number in (select s.epoch from leasehold.seat s)
    ));
end
$$;

create view leasehold.seats as
  select number, worker_id, label, weight, queues, epoch, taken_at, expires_at from leasehold.seat;
