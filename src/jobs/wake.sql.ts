// NOTIFY is sent by the statements that enqueue (leasehold.wake); these record when it would be useless.

// $1 queues  $2 for so many ms
export const MARK_BUSY = `-- busy.mark
insert into leasehold.busy (queue, until)
select distinct queue, leasehold.clock() + $2 * interval '1 ms' from unnest((select $1::text[])) as i (queue)
order by queue
on conflict (queue) do update set until = excluded.until`

// A worker that has locked a row is writing the same, or that the queue is busy again: then it is. Waiting for it, in any order
// rows are found, deadlocked with MARK_BUSY.   $1 queues
export const CLEAR_BUSY = `-- busy.clear
update leasehold.busy set until = leasehold.clock()
where queue = any (array(
  select queue from leasehold.busy
  where queue = any ((select $1::text[])::text[]) and until > leasehold.clock()
  for update skip locked
))`

// What the listener waits for, sent from another connection: proof that the one it listens on is not a pooler's.
export const NOTIFY = `-- wake.notify
select leasehold.tell($1, $2)`

// There is more than one worker can take.   $1 queues
export const CALL_FOR_HELP = `-- wake.help
select leasehold.tell('help', i.queue) from unnest((select $1::text[])) as i (queue)`

// How many workers claim from this queue. One that has died is counted until that is noted (leasehold.note_deaths).   $1 queue
export const FLEET = `-- wake.fleet
select count(*) as workers from leasehold.worker
where stopped_at is null and dead_at is null and draining_at is null and mode = 'worker' and $1 = any (queues)`

// Runs that wait for signals which have come are available.   $1 after this signal  $2 signals to look at
export const WAKE_SIGNALLED = `-- wake.signalled
select leasehold.wake_signalled($1, $2) as last`

// $1 after this job  $2 rows of each table to look at
export const PRUNE_RUNS = `-- wake.prune_runs
select leasehold.prune_runs($1, $2) as last`

export const LISTEN = `-- wake.listen
select leasehold.listen()`
