-- serves code from: 1
--
-- Notifies idle workers of new work at once. NOTIFY is a hint and polling is the truth: a failure here costs at most one
-- poll interval (decisions/0016).

-- While workers cannot keep up, waking them is useless, and a commit that notifies takes a lock of the whole server. So a
-- worker whose claims have come back full for a while marks its queue here, and enqueues do not notify.
create table leasehold.busy (
  queue text not null,
  until timestamptz not null,
  constraint busy_pkey primary key (queue)
) with (fillfactor = 50, vacuum_truncate = off);

-- The channel is named after the schema, so that two installations in one database do not wake each other.
create function leasehold.tell(topic text, message text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_notify(replace('leasehold.', '"', '') || topic, message);
  return true;
end
$$;

-- Delivered when the caller's transaction commits, once per queue however many jobs it enqueued. Of a queue that was
-- configured not to wake, never: its producers' commits take no lock of the server's, and their transactions can be
-- prepared.
create function leasehold.wake(queues text[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  woken text;
begin
  foreach woken in array queues loop
    if (select b.until > leasehold.clock() from leasehold.busy b where b.queue = woken) is not true
      and (select q.wakes from leasehold.queue q where q.name = woken) is not false then
      perform leasehold.tell('wake', woken);
    end if;
  end loop;
  return true;
end
$$;

-- The same for jobs in lines of queues: in a queue on the ring only the owner of a bucket can claim them, so the message names the
-- lines, unless they are many.
create function leasehold.wake_lines(queues text[], lines integer[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  woken record;
begin
  for woken in
    select i.queue, array_agg(distinct i.line) as lines from unnest(queues, lines) as i (queue, line) group by i.queue
  loop
    if woken.lines = '{0}' or cardinality(woken.lines) > 200 then
      perform leasehold.wake(array[woken.queue]);
    elsif (select q.wakes from leasehold.queue q where q.name = woken.queue) is not false then
      perform leasehold.tell('wake', woken.queue || e'\n' || array_to_string(woken.lines, ','));
    end if;
  end loop;
  return true;
end
$$;

-- How many workers may receive it. A beat changes no column of this index, so it stays a heap-only update.
create index worker_running on leasehold.worker (id) where stopped_at is null and dead_at is null;

-- LISTEN takes no parameter, and the channels bear the schema's name.
create function leasehold.listen() returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  topic text;
begin
  foreach topic in array array['wake', 'help', 'cancel', 'pause', 'signal', 'ring'] loop
    execute format('listen %I', replace('leasehold.', '"', '') || topic);
  end loop;
end
$$;
