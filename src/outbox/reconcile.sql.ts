// What a report needs of the sender's database: the events of a range, and the whereabouts of those that were not received.

// A page of events in the order of their places. `takes`: the destination takes it today.
//   $1 destination  $2 since  $3 until; null: now  $4 after this place  $5 events to look at
export const READ_PUBLISHED = `-- event.read_published
select e.id, e.source, e.type, e.key, e.place, extract(epoch from e.published_at) * 1000 as published_ms,
  extract(epoch from leasehold.clock()) * 1000 as read_ms, coalesce($3::timestamptz, leasehold.clock()) as until,
  leasehold.takes((select d.types from leasehold.destination d where d.name = $1), e.type) as takes
from (
  select v.id, v.source, v.type, v.key, v.place, v.published_at
  from leasehold.event v
  where v.published_at >= $2::timestamptz and v.published_at < coalesce($3::timestamptz, leasehold.clock()) and v.place > $4
  order by v.place
  limit $5
) as e
order by e.place`

// Which of these events wait to be sent, or are dead letters. No index finds a job by its event, so this reads the unfinished jobs of
// the destination once, whatever the number of ids. IS TRUE keeps the planner from making a join of it: the ids are hashed once.
//   $1 destination  $2 ids
export const READ_UNSENT = `-- event.read_unsent
select j.payload ->> 'id' as id, true as waits
from leasehold.job j
where j.queue = 'outbox:' || $1 and j.key_seq is not null and (j.payload ->> 'id' in (select unnest($2::text[]))) is true
union all
select l.payload ->> 'id', false
from leasehold.dead_letter l
where l.queue = 'outbox:' || $1 and (l.payload ->> 'id' in (select unnest($2::text[]))) is true`

// Which of these events were sent, and when, or cancelled. Reads the archive from the day on which the oldest of them could have been
// forgotten. A row that was replayed is there twice.   $1 destination  $2 ids  $3 when the oldest was published, in ms
export const READ_SENT = `-- event.read_sent
select a.payload ->> 'id' as id, a.status, extract(epoch from a.finished_at) * 1000 as finished_ms
from leasehold.archive a
where a.forget_at >= to_timestamp($3::float8 / 1000) and a.queue = 'outbox:' || $1
  and (a.payload ->> 'id' in (select unnest($2::text[]))) is true`
