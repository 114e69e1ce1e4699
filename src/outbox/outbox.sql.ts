// Events and destinations. Storing them is one function in the database, for SQL and for TypeScript (migrations/0011_outbox.sql).

//   $1 ids  $2 times  $3 sources  $4 types  $5 subjects  $6 keys  $7 content types  $8 schemas  $9 extensions  $10 data
//   $11 what order is kept by  $12 buckets
export const PUBLISH = `-- event.publish
select leasehold.publish_many($1::uuid[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::jsonb[], $10::text[], $11::text[], $12::smallint[]) as jobs`

// By name, so that two deploys at a time do not deadlock.   $1 names  $2 transports  $3 types as JSON  $4 max attempts
export const STORE_DESTINATIONS = `-- destination.store
insert into leasehold.destination (name, transport, types, max_attempts)
select i.name, i.transport, case when i.types <> 'null' then array(select jsonb_array_elements_text(i.types)) end, i.max_attempts
from unnest((select $1::text[]), (select $2::text[]), (select $3::jsonb[]), (select $4::smallint[]))
  as i (name, transport, types, max_attempts)
order by i.name
on conflict (name) do update set transport = excluded.transport, types = excluded.types, max_attempts = excluded.max_attempts`

export const REMOVE_DESTINATION = `-- destination.remove
delete from leasehold.destination where name = $1 returning name`

export const READ_DESTINATIONS = `-- destination.read
select name, transport from leasehold.destination where name = any ((select $1::text[])::text[])`

// How far behind each destination is. Counts every job that is not sent yet.
export const READ_LAG = `-- destination.lag
select name, transport, on_dead_letter, paused, unsent, dead_letters,
  extract(epoch from leasehold.clock() - oldest_at) * 1000 as oldest_ms
from leasehold.destinations order by name`

// The events of a batch, until their data come to $3 bytes; the first in any case. Those behind are asked for by the next
// statement. An event that is missing is a row without a source. Its id and its key are those of the job.
//   $1 ids  $2 when they were published
export const LOAD_EVENTS = `-- event.load
select e.source, e.type, e.subject, e.data_content_type, e.data_schema, e.extensions,
  to_char(e.time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as time, encode(e.data, 'hex') as data
from (
  select i.nth, e.*, sum(coalesce(length(e.data), 0)) over (order by i.nth) as bytes
  from unnest((select $1::uuid[]), (select $2::timestamptz[])) with ordinality as i (id, at, nth)
  left join lateral (
    select v.* from leasehold.event v where v.published_at = i.at and v.id = i.id limit 1
  ) e on true
) as e
where e.bytes <= $3 or e.nth = 1
order by e.nth`

//   $1 destination  $2 since  $3 until; null: now  $4 types  $5 keys  $6 after this place  $7 events to look at
export const REPLAY = `-- event.replay
select r.replayed, r.last_place, r.looked, coalesce($3::timestamptz, leasehold.clock()) as until
from leasehold.replay($1, $2::timestamptz, coalesce($3::timestamptz, leasehold.clock()), $4::text[], $5::text[], $6, $7) as r`

//   $1 destination  $2 by  $3 events
export const NOTE_REPLAY = `-- event.note_replay
insert into leasehold.operator_action (at, action, by, outcome, queue, detail)
values (leasehold.clock(), 'replay', $2, 'replayed', 'outbox:' || $1, $3)`
