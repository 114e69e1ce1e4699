-- serves code from: 1
--
-- One partition a day, by UTC, made ahead: of the archive by the day on which a row is forgotten, of attempts by the day on
-- which they ended, of events by the day on which they were published (0011_outbox.sql). Rows of a day that has none (a clock that jumped, a housekeeper that slept)
-- go to the default partition and are pruned there row by row. Both functions give up after a short wait for a lock and
-- are called again: dropping a partition waits behind every reader, and meanwhile every insert would wait behind it.

-- Whether this role may act as the owner of the tables. The functions that need to be owner do nothing and return null for
-- any other role, so that a worker needs no such right; the owner calls them by maintain().
create function leasehold.is_owner() returns boolean
  language sql stable
  return (
    select pg_catalog.pg_has_role(current_user, relowner, 'USAGE') from pg_catalog.pg_class
    where oid = 'leasehold.job'::pg_catalog.regclass
  );

create function leasehold.make_partitions(days_ahead integer) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set datestyle = 'ISO'
  set timezone = 'UTC'
  set lock_timeout = '50ms'
as $$
declare
  owner name;
  parent text;
  day date;
  partition text;
  made integer := 0;
begin
  if not leasehold.is_owner() then
    return null;
  end if;
  select pg_get_userbyid(relowner) into owner from pg_class where oid = 'leasehold.job'::regclass;
  foreach parent in array array['archive', 'job_attempt', 'event'] loop
    for day in select d::date from generate_series(
      (leasehold.clock() at time zone 'UTC')::date,
      (leasehold.clock() at time zone 'UTC')::date + case parent when 'archive' then days_ahead else least(days_ahead, 7) end,
      interval '1 day') d
    loop
      partition := parent || '_' || to_char(day, 'YYYYMMDD');
      continue when to_regclass(format('leasehold.%I', partition)) is not null;
      begin
        -- Attached rather than created in place: the parent's inserts go on meanwhile, but for those into the default
        -- partition, which is looked through for rows of that day.
        execute format('create table leasehold.%I (like leasehold.%I including defaults including constraints)', partition, parent);
        -- Made by a superuser or by a member of the owner, it could not be dropped by the owner.
        if owner <> current_user then
          execute format('alter table leasehold.%I owner to %I', partition, owner);
        end if;
        execute format('alter table leasehold.%I attach partition leasehold.%I for values from (%L) to (%L)',
          parent, partition, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
        made := made + 1;
      exception
        -- Another session makes it; a reader holds the lock; or the default partition already holds rows of that day.
        when duplicate_table or duplicate_object or unique_violation or invalid_object_definition or lock_not_available
          or deadlock_detected or check_violation then null;
      end;
    end loop;
  end loop;
  return made;
end
$$;

-- Whether an event that was published before this time is not sent yet: a job or a dead letter of a destination refers to it. Jobs
-- of destinations that are configured no more count, too.
create function leasehold.has_unsent(before timestamptz) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
as $$
declare
  of_queue text;
begin
  for of_queue in select q.name from leasehold.queue q where q.name like 'outbox:%' loop
    if exists (
      select from leasehold.job j
      where j.queue = of_queue and j.key_seq is not null and (j.payload ->> 'at')::timestamptz < before
    ) or exists (
      select from leasehold.dead_letter d where d.queue = of_queue and (d.payload ->> 'at')::timestamptz < before
    ) then
      return true;
    end if;
  end loop;
  return false;
end
$$;

-- Archived rows carry their own expiry; attempts expire after keep_attempts, events as the settings have it. Drops at most one
-- partition of each table a call, oldest first: a clock that is wrong for a minute must not cost the archive. A day of the archive
-- stays while an idempotency key has to be kept for one of its jobs: the archive is how prune knows when it finished. A day of
-- events stays while an event of that day, or of an earlier one, is not sent.
--
-- Events and the last look. A publish that is open has written to its day, a replay has read the day and will write jobs. Both hold
-- a lock on the partition until they commit. So the look that counts is made after the partition was locked against both, by a
-- statement of its own: it sees every job that refers to the day, and no other can be added. A weaker lock lets a replay in between
-- the look and the drop, and its jobs would find no event (decisions/0035). The look before the lock is only there to spare it.
create function leasehold.drop_partitions(keep_attempts interval) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set datestyle = 'ISO'
  set timezone = 'UTC'
  set lock_timeout = '50ms'
as $$
declare
  parent text;
  partition text;
  ends timestamptz;
  needed boolean;
  keep_events constant interval := (select s.keep_events from leasehold.settings s);
  dropped integer := 0;
begin
  if not leasehold.is_owner() then
    return null;
  end if;
  foreach parent in array array['archive', 'job_attempt', 'event'] loop
    for partition, ends in
      select c.relname, (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = format('leasehold.%I', parent)::regclass and c.relname ~ '_\d{8}$'
        and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC'
          <= leasehold.clock() - case parent when 'archive' then interval '0' when 'event' then keep_events else keep_attempts end
      order by c.relname
    loop
      begin
        if parent = 'event' then
          exit when leasehold.has_unsent(ends);
          execute format('lock table leasehold.%I in access exclusive mode', partition);
          exit when leasehold.has_unsent(ends);
        else
          -- Before the look: a transaction that has written to this day has ended now, and no other can begin to. Readers
          -- go on.
          execute format('lock table leasehold.%I in share row exclusive mode', partition);
        end if;
        if parent = 'archive' then
          execute format('select exists (
            select from leasehold.%I a join leasehold.idempotency_key k on k.queue = a.queue and k.key = a.idempotency_key
            where a.idempotency_key is not null and k.job_id = a.id and a.finished_at > leasehold.clock() - k.keep_for)', partition)
          into needed;
          continue when needed;
        end if;
        execute format('drop table leasehold.%I', partition);
        dropped := dropped + 1;
      exception
        when lock_not_available or deadlock_detected or undefined_table then null;
      end;
      exit;
    end loop;
  end loop;
  -- Events of days that had no partition. The same two looks, and the same lock.
  begin
    ends := leasehold.clock() - keep_events;
    if exists (select from leasehold.event_default where published_at < ends) and not leasehold.has_unsent(ends) then
      lock table leasehold.event_default in access exclusive mode;
      if not leasehold.has_unsent(ends) then
        delete from leasehold.event_default where published_at < ends;
      end if;
    end if;
  exception
    when lock_not_available or deadlock_detected then null;
  end;
  return dropped;
end
$$;
