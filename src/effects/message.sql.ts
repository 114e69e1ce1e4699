// A concurrent insert of the same message waits until the other transaction has ended, and then sees the row or not.
//   $1 source  $2 message id  $3 keep for so many ms
export const FIRST_TIME = `-- message.first_time
insert into leasehold.processed_message (source, message_id, processed_at, forget_at)
values ($1, $2, leasehold.clock(), leasehold.clock() + $3 * interval '1 ms')
on conflict (source, message_id) do nothing
returning source`

// Such a row never changes, so its ctid identifies it.   $1 messages at most
export const PRUNE_MESSAGES = `-- message.prune
delete from leasehold.processed_message
where ctid = any (array(
  select ctid from leasehold.processed_message
  where forget_at <= leasehold.clock()
  order by forget_at
  limit $1
  for update skip locked
))
returning source`
