// NOTIFY is sent by the statements that enqueue (leasehold.wake); these say when it would be useless.

// $1 queues  $2 for so many ms
export const MARK_BUSY = `-- busy.mark
insert into leasehold.busy (queue, until)
select distinct queue, leasehold.clock() + $2 * interval '1 ms' from unnest((select $1::text[])) as i (queue)
order by queue
on conflict (queue) do update set until = excluded.until`

export const CLEAR_BUSY = `-- busy.clear
update leasehold.busy set until = leasehold.clock()
where queue = any ((select $1::text[])::text[]) and until > leasehold.clock()`

// What the listener waits for, sent from another connection: proof that the one it listens on is not a pooler's.
export const TELL = `-- wake.tell
select leasehold.tell($1, $2)`

export const LISTEN = `-- wake.listen
select leasehold.listen()`
