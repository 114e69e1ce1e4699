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
