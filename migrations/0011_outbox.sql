-- serves code from: 1
--
-- The outbox: events that leave the database, and where to (decisions/0035). An event commits with the business write. For each
-- destination that takes its type it has one job, in that destination's own ordered queue, which carries the event's id and is
-- ordered by the event's key. So leases, fence, order, retries, dead letters and pauses are those of jobs; there is no other state.
--
-- Events are never updated and never deleted one by one: a day's partition is dropped when it is past its retention and no job or
-- dead letter refers to it (0006_partitions.sql).

-- The attributes of CloudEvents 1.0. `data` is the bytes as they were published. The id is random, never from a sequence: after a
-- lost WAL tail a sequence gives an id a second time, and receivers would drop the new event as a copy of the lost one.
-- Found by its time and its id, so that a look needs one partition, and inserts go to the end of the index. `place` is drawn while the
-- row of its key in each queue is locked: events of a key have their places in the order of their commits, and are replayed by it.
create sequence leasehold.event_place as bigint;

create table leasehold.event (
  id                uuid not null,
  published_at      timestamptz not null,
  place             bigint not null default nextval('leasehold.event_place'),
  time              timestamptz not null,
  source            text not null,
  type              text not null,
  subject           text,
  key               text,
  data_content_type text,
  data_schema       text,
  extensions        jsonb,
  data              bytea,
  constraint event_pkey primary key (published_at, id)
) partition by range (published_at);

create index event_by_place on leasehold.event (place);

create table leasehold.event_default partition of leasehold.event default;

-- Stored by configure(). `types`: whole types, or beginnings that end in an asterisk; null: all. The queue and the kind of a
-- destination are both called outbox:name.
create table leasehold.destination (
  name         text not null,
  transport    text not null,
  types        text[],
  max_attempts smallint not null,
  constraint destination_pkey primary key (name)
);

create function leasehold.takes(types text[], type text) returns boolean
  language sql immutable parallel safe
  return types is null or exists (
    select from unnest(types) as t (name)
    where t.name = type or (right(t.name, 1) = '*' and starts_with(type, left(t.name, -1)))
  );

-- Stores events, and for each of them a job for each destination. Arrays have one element an event; data is hexadecimal, so that
-- any driver can send it. `keys` are what order is kept by: the id of an event without a key. Returns how many jobs there are.
--
-- Destinations are visited by name and each call locks its keys in one order, so two calls cannot deadlock. A transaction that
-- publishes by several calls can, as with any ordered enqueue.
create function leasehold.publish_many(
  ids uuid[], times timestamptz[], sources text[], types text[], subjects text[], event_keys text[], content_types text[],
  schemas text[], extensions jsonb[], data text[], keys text[], buckets smallint[]
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  at constant timestamptz := leasehold.clock();
  jobs integer := 0;
  place record;
  stored bigint[];
begin
  for place in
    select d.name, d.max_attempts, jsonb_agg(jsonb_build_object('id', e.id, 'at', at) order by e.nth)::text as inputs,
      jsonb_agg(e.key order by e.nth)::text as keys, array_agg(e.bucket order by e.nth) as buckets
    from leasehold.destination d
    cross join unnest(ids, publish_many.types, publish_many.keys, publish_many.buckets) with ordinality as e (id, type, key, bucket, nth)
    where leasehold.takes(d.types, e.type)
    group by d.name, d.max_attempts
    order by d.name
  loop
    stored := leasehold.enqueue_alike_in_order('outbox:' || place.name, 'outbox:' || place.name, place.inputs, 5::smallint,
      place.max_attempts, place.buckets, 0, place.keys);
    if stored is null then
      raise exception 'queue "outbox:%" is not ordered', place.name using
        errcode = 'LH003', hint = 'configure() the destination again.';
    end if;
    jobs := jobs + cardinality(stored);
  end loop;
  -- After the jobs: their keys are locked now, until this commits.
  insert into leasehold.event (id, published_at, time, source, type, subject, key, data_content_type, data_schema,
    extensions, data)
  select e.id, at, coalesce(e.time, at), e.source, e.type, e.subject, e.key, e.content_type, e.data_schema, e.extensions,
    decode(e.data, 'hex')
  from unnest(ids, times, sources, publish_many.types, subjects, event_keys, content_types, schemas, publish_many.extensions,
    publish_many.data) as e (id, time, source, type, subject, key, content_type, data_schema, extensions, data);
  return jobs;
end
$$;

-- Publishes one event in your transaction. It is a CloudEvent in the JSON format: type and source, and optionally id (a UUID), subject,
-- time, datacontenttype, dataschema, partitionkey, data or data_base64; other members are extension attributes. Returns the id.
create function leasehold.publish(event jsonb) returns uuid
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
as $$
declare
  known constant text[] := array['id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema', 'partitionkey',
    'data', 'data_base64', 'specversion'];
  id constant uuid := coalesce((event ->> 'id')::uuid, gen_random_uuid());
  key constant text := event ->> 'partitionkey';
  extra constant jsonb := event - known;
  bytes bytea;
  wrong text;
begin
  wrong := case
    when event is null or jsonb_typeof(event) <> 'object' then 'an event is an object'
    when octet_length(event ->> 'type') not between 1 and 200 or event ->> 'type' is null then 'type holds 1 to 200 bytes'
    when octet_length(event ->> 'source') not between 1 and 1000 or event ->> 'source' is null then 'source holds 1 to 1000 bytes'
    when octet_length(key) not between 1 and 1000 then 'partitionkey holds 1 to 1000 bytes'
    when octet_length(event ->> 'subject') not between 1 and 1000 then 'subject holds 1 to 1000 bytes'
    when octet_length(event ->> 'datacontenttype') not between 1 and 200 then 'datacontenttype holds 1 to 200 bytes'
    when octet_length(event ->> 'dataschema') not between 1 and 1000 then 'dataschema holds 1 to 1000 bytes'
    when event ->> 'specversion' <> '1.0' then 'specversion is 1.0'
    when event ? 'data' and event ? 'data_base64' then 'data and data_base64 are mutually exclusive'
    when octet_length(extra::text) > 16384 then 'extension attributes hold at most 16384 bytes'
    when exists (
      select from jsonb_each(extra) as e (name, value)
      where e.name !~ '^[a-z0-9]{1,20}$' or jsonb_typeof(e.value) not in ('string', 'number', 'boolean')
    ) then 'names of extension attributes are 1 to 20 of a-z and 0-9, and values are strings, numbers or booleans'
  end;
  if wrong is not null then
    raise exception '%', wrong using errcode = 'invalid_parameter_value',
      hint = 'Pass a CloudEvent in the JSON format, such as {"type": "order.paid", "source": "/orders", "data": {"id": 7}}.';
  end if;
  bytes := case when event ? 'data_base64' then decode(event ->> 'data_base64', 'base64')
    else convert_to((event -> 'data')::text, 'UTF8') end;
  if length(bytes) > 1048576 then
    raise exception 'data is larger than 1 MiB' using
      errcode = 'program_limit_exceeded', hint = 'Store it elsewhere and publish its address.';
  end if;
  perform leasehold.publish_many(array[id], array[(event ->> 'time')::timestamptz], array[event ->> 'source'],
    array[event ->> 'type'], array[event ->> 'subject'], array[key],
    array[coalesce(event ->> 'datacontenttype', case when event ? 'data' then 'application/json' end)],
    array[event ->> 'dataschema'], array[nullif(extra, '{}')], array[encode(bytes, 'hex')],
    array[coalesce(key, id::text)], array[leasehold.bucket(coalesce(key, id::text))]);
  return id;
end
$$;

-- Sends stored events to one destination once more, with their ids: those that its filter takes, published from `since` on and
-- before `until`, and of these types and keys if given. At most `most` a call, in the order of their places; the next call begins
-- after the last of this one. They go to the back of their keys.
--
-- The look holds a lock on the partitions until this commits, which retention waits for (0006_partitions.sql).
create function leasehold.replay(
  destination text, since timestamptz, until timestamptz, only_types text[], only_keys text[], after_place bigint, most integer,
  out replayed integer, out last_place bigint, out looked integer
)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set jit = off
as $$
declare
  to_where record;
  found_events record;
  stored bigint[];
begin
  select d.name, d.types, d.max_attempts into to_where from leasehold.destination d where d.name = destination;
  if not found then
    raise exception 'there is no destination "%"', destination using errcode = 'LH005', hint = 'configure() it first.';
  end if;
  select count(*) as looked, count(*) filter (where e.fits) as fits, max(e.place) as last_place,
    jsonb_agg(jsonb_build_object('id', e.id, 'at', e.published_at) order by e.place) filter (where e.fits) as inputs,
    jsonb_agg(e.key order by e.place) filter (where e.fits) as keys,
    array_agg(leasehold.bucket(e.key) order by e.place) filter (where e.fits) as buckets
  into found_events
  from (
    select v.id, v.published_at, v.place, coalesce(v.key, v.id::text) as key,
      leasehold.takes(to_where.types, v.type) and leasehold.takes(only_types, v.type)
        and (only_keys is null or v.key = any (only_keys)) as fits
    from leasehold.event v
    where v.published_at >= since and v.published_at < until and v.place > after_place
    order by v.place
    limit most
  ) as e;
  looked := found_events.looked;
  last_place := found_events.last_place;
  replayed := found_events.fits;
  if replayed > 0 then
    stored := leasehold.enqueue_alike_in_order('outbox:' || destination, 'outbox:' || destination, found_events.inputs::text,
      5::smallint, to_where.max_attempts, found_events.buckets, 0, found_events.keys::text);
    if stored is null then
      raise exception 'queue "outbox:%" is not ordered', destination using
        errcode = 'LH003', hint = 'configure() the destination again.';
    end if;
  end if;
end
$$;

-- Where events go, and how far behind each destination is. `oldest_at`: since when the oldest job that is not sent yet has waited.
create view leasehold.destinations as
  select d.name, d.transport, d.types, q.on_dead_letter, q.paused_at is not null as paused, waiting.jobs as unsent,
    waiting.oldest_at, (
      select count(*) from leasehold.dead_letter l where l.queue = 'outbox:' || d.name
    ) as dead_letters
  from leasehold.destination d
  join leasehold.queue q on q.name = 'outbox:' || d.name
  cross join lateral (
    select count(*) as jobs, min(j.created_at) as oldest_at from leasehold.job j
    where j.queue = 'outbox:' || d.name and j.key_seq is not null
  ) waiting;
