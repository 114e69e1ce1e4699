// $1 source  $2 event id  $3 hash of the body or null  $4 keep for so many ms  $5 wait for so many ms
export const RECEIVE = `-- inbox.receive
select leasehold.receive($1, $2, $3, $4, $5) as outcome`

// Rows that are being counted as a duplicate are left to the next turn.   $1 rows at most
export const PRUNE_INBOX = `-- inbox.prune
delete from leasehold.inbox
where ctid = any (array(
  select ctid from leasehold.inbox
  where forget_at <= leasehold.clock()
  order by forget_at
  limit $1
  for update skip locked
))
returning source`

// Whether and when events were received. A receiver knows an event by its id, or by its source and id (byEvent): both are looked up.
// An event without a row whose row would be forgotten by now is marked.   $1 source  $2 ids  $3 their sources
// $4 when they were published, in ms  $5 keep for so many ms
export const READ_RECEIPTS = `-- inbox.read_receipts
select extract(epoch from r.received_at) * 1000 as received_ms, r.duplicates,
  leasehold.clock() > to_timestamp(e.published_ms / 1000) + $5::float8 * interval '1 ms' as is_past
from unnest((select $2::text[]), (select $3::text[]), (select $4::float8[])) with ordinality as e (id, source, published_ms, nth)
cross join lateral (
  select min(i.received_at) as received_at, sum(i.duplicates) + count(*) - 1 as duplicates
  from leasehold.inbox i
  where i.source = $1 and i.event_id = any (array[e.id, e.source || ' ' || e.id])
) r
order by e.nth`
