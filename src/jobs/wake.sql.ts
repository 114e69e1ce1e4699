// NOTIFY is sent by the statements that enqueue (leasehold.wake); these record when it would be useless.

// Passes over a row that another session has locked: that session marks or clears it, and a hint is not worth a wait.
//   $1 queues  $2 for so many ms
export const MARK_BUSY = `-- busy.mark
with renewed as (
  update leasehold.busy set until = leasehold.clock() + $2 * interval '1 ms'
  where queue = any (array(
    select queue from leasehold.busy where queue = any ((select $1::text[])::text[]) for update skip locked
  ))
)
insert into leasehold.busy (queue, until)
select distinct i.queue, leasehold.clock() + $2 * interval '1 ms' from unnest((select $1::text[])) as i (queue)
where not exists (select from leasehold.busy b where b.queue = i.queue)
order by i.queue
on conflict (queue) do nothing`

// As above. If it waited for the rows, in any order they are found, it deadlocked with a mark.   $1 queues
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

// How many workers claim from one of these queues. One that has died is counted until that is noted (leasehold.note_deaths).
// $1 queues
export const FLEET = `-- wake.fleet
select count(*) as workers from leasehold.worker
where stopped_at is null and dead_at is null and draining_at is null and mode = 'worker' and queues && (select $1::text[])`

// Runs that wait for signals which have come are available.   $1 after this signal  $2 signals to look at
export const WAKE_SIGNALLED = `-- wake.signalled
select leasehold.wake_signalled($1, $2) as last`

// $1 after this job  $2 rows of each table to look at
export const PRUNE_RUNS = `-- wake.prune_runs
select leasehold.prune_runs($1, $2) as last`

export const LISTEN = `-- wake.listen
select leasehold.listen()`
