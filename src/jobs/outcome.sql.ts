// Every outcome names its claim, and that is the whole safety argument: a job row with this id and this claim_id is the one
// that this worker claimed. No other claim has that id, also not after a failover that lost the claim and gave the job, or
// another job with its id, to another worker (decisions/0002). Everything that ends a claim clears claim_id or removes the
// row. A statement locks rows with that test; the rest of it acts on locked rows.
//
// SKIP LOCKED, so that no batch ever waits: a row that another transaction has locked (a cancel, a sweep, the handler's own
// transaction) is answered `busy` and sent again. Hence no lock order is needed among job rows, and batches cannot deadlock.
//
// A job leaves through leasehold.finish() (decisions/0024), which the outer select calls over rows that a CTE has locked
// and judged; a completion is the one exception. Nothing reads the column `finished`: selecting it is the call. The outer select reads no table, so that a
// distributed Postgres runs it on the node that runs the statement.

// The ids of what was completed. Like all that the two below share, it moves the row itself, as leasehold.finish('completed')
// does, and test/plans/columns.test.ts compares them with it: every job that succeeds pays for this statement, and the function
// took a third longer for batches of one, a tenth for batches of a hundred (decisions/0024). No id stands twice in $1. Lists are
// searched from their beginning, so they hold 50 jobs at most.
//   $1 ids  $2 claim ids  $3 results  $4 keep in the archive for so many ms; null: not at all  $5 worker id
const HELD = `from leasehold.job
  where id = any ((select $1::bigint[])::bigint[]) and claim_id = ($2::bigint[])[array_position($1::bigint[], id)]
  for update skip locked`

const RECORD = `returning id, available_at, created_at, lease_generation, claim_id, claimed_at, attempts, max_attempts, priority,
    partition_bucket, queue, kind, payload, partition_key, idempotency_key, metadata, key_seq, parent_id
), archived as (
  insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id,
    claimed_at, claimed_by, status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload,
    partition_key, idempotency_key, metadata, result, cancel_reason)
  select id, leasehold.clock() + coalesce(keep_ms, 0) * interval '1 ms', leasehold.clock(), available_at, created_at,
    lease_generation, claim_id, claimed_at, $5::uuid, 'completed', attempts, max_attempts, priority, partition_bucket,
    queue, kind, payload, partition_key, idempotency_key, metadata, result, null
  from (
    select ended.*, ($3::jsonb[])[array_position($1::bigint[], id)] as result,
      ($4::float8[])[array_position($1::bigint[], id)] as keep_ms
    from ended
  ) as ended
  where keep_ms is not null or idempotency_key is not null
)`

const COMPLETED = `with ended as (
  delete from leasehold.job where id = any (array(
    select id ${HELD}
  ))
  ${RECORD}`

export const COMPLETE = `-- job.complete
${COMPLETED}
select array_agg(id) as completed from ended`

// Of jobs of ordered queues, and of those that a run of a workflow waits for. let_in: how many jobs of the same keys can be claimed now.
// A job is not recorded before one that ran before it: if that one is locked, both are busy, and are sent again. Nor after the sweep
// has returned that one and not this one, whose row was locked: under a claim that was swept only the first of a run is recorded.
//   $6 the place of the first job of each one's run; null: the queue is not ordered
const COMPLETED_IN_ORDER = `with held as materialized (
  select locked.*, ($6::bigint[])[array_position($1::bigint[], id)] as run_from, array_agg(id) over () as all_held
  from (select id, queue, partition_key, key_seq, claim_id ${HELD}) as locked
), ended as (
  delete from leasehold.job where id = any (array(
    select id from held
    where run_from is null or key_seq = run_from or (
      select c.swept from leasehold.claim c where c.id = held.claim_id
    ) is not true and (
      select true from leasehold.job ahead
      where ahead.queue = held.queue and ahead.partition_key = held.partition_key and ahead.key_seq >= held.run_from
        and ahead.key_seq < held.key_seq and ahead.claim_id = held.claim_id
        and ahead.id <> all (held.all_held)
      limit 1
    ) is null
  ))
  ${RECORD}`

const LET_IN = `select array_agg(id) as completed, count(case when parent_id is not null then leasehold.notify_parent(
    parent_id, id, 'completed', ($3::jsonb[])[array_position($1::bigint[], id)], null) end) as notified, case when count(key_seq) > 0 then leasehold.advance(
    array_agg(queue) filter (where key_seq is not null), array_agg(partition_key) filter (where key_seq is not null),
    array_agg(($6::bigint[])[array_position($1::bigint[], id)]) filter (where key_seq is not null)`

export const COMPLETE_IN_ORDER = `-- job.complete_in_order
${COMPLETED_IN_ORDER}
${LET_IN}
  ) end as let_in
from ended`

// In the caller's transaction, which may stay open. What ran before may not be recorded yet.
export const COMPLETE_WITHIN = `-- job.complete_within
${COMPLETED}
${LET_IN}, is_open => true
  ) end as let_in
from ended`

// A turn: COMPLETE and a claim in one statement and one commit (decisions/0031). The first row, which is no job, has the ids of what
// was completed. The two halves do not meet: what is completed is claimed, so the claim passes it over. The claim comes last, as a
// left join makes sure of: it finds what was enqueued before the turn and committed meanwhile.
//   $1–$5 as for COMPLETE, but $5 claims as well  $6 claim id  $7 lease in ms  $8 limit  $9 kinds  $10–$13 spots, or $10 queues
//   $14, $15 due for so many ms  $16 share  $17 run length  $18 lines or null
export const TURN = `-- job.turn
${COMPLETED}
select claimed.*, case when claimed.id is null then completed end as completed
from (select array_agg(id) as completed from ended) as answered
left join leasehold.claim($6, $5, $7, $8, $9, $10, $11, $12, $13, older_ms => $14, younger_ms => $15, share => $16,
  run_length => $17, lines => $18) as claimed on true`

// The completion comes first, as a left join makes sure of: the claim finds the jobs that it lets in.
//   $1–$6 as for COMPLETE_IN_ORDER  $7–$19 as $6–$18 of TURN
export const TURN_IN_ORDER = `-- job.turn_in_order
${COMPLETED_IN_ORDER}
select claimed.*, case when claimed.id is null then completed end as completed, let_in, notified
from (
  ${LET_IN}
  ) end as let_in
  from ended
) as answered
left join leasehold.claim($7, $5, $8, $9, $10, $11, $12, $13, $14, older_ms => $15, younger_ms => $16, share => $17,
  run_length => $18, lines => $19) as claimed on true`

// Large batches. False: some are locked or not held any more, and nothing was done; COMPLETE is next.
//   $1 ids, claim by claim  $2 claim ids  $3 how many jobs of each  $4 worker id  $5 keep all for so many ms; null: not at all
//   $6, $7 results and how long to keep each, instead of $5  $8 as $6 of COMPLETE_IN_ORDER, or null
export const COMPLETE_MANY = `-- job.complete_many
select leasehold.complete_many($1, $2, $3, $4, $5, $6, $7, $8) as done`

// Every outcome but success, one item each:
//   fail     spends the attempt; pending again after the delay, or a dead letter when attempts are used up
//   bury     a dead letter now, for the reason given
//   snooze   pending again after the delay, attempt returned
//   release  pending again where it stood, attempt returned
// A snooze may wait for signals (0012_workflows.sql). If one is there that the run has not consumed, the run is available at once. So it
// is if its cancellation was requested and it does not know: a run that does passes no names, one that does not passes a list.
//   cancel   cancelled; a cancel that was requested meanwhile turns fail, snooze and release into it
// A failure shows that the job does not kill its worker, and costs an attempt: crashes start again from zero.
// The count at the end: all rows are locked and judged before the first is requeued, which may return others of its run.
// What is released wakes a worker, as what is enqueued does. The one that released may hear it, and claims only what it has
// room for: a job that it had no slot for is not claimed back before it has one.
//   $1 ids  $2 claim ids  $3 verbs  $4 delays in ms  $5 errors  $6 reasons  $7 worker id  $8 names of signals, a JSON array each
export const SETTLE = `-- job.settle
with looked as materialized (
  select i.position, i.id as asked, i.claim_id, i.verb, i.error, i.waits, j.*, leasehold.clock() as at,
    case i.verb when 'release' then j.available_at else leasehold.clock() + i.delay_ms * interval '1 ms' end as next_at,
    case
      when j.id is null then null
      when i.verb = 'bury' then 'dead_letter'
      when i.verb = 'cancel' or j.cancel_requested_at is not null then 'cancelled'
      when i.verb = 'fail' and j.attempts >= j.max_attempts then 'dead_letter'
      else 'pending'
    end as next,
    case i.verb when 'fail' then 'attempts_exhausted' else i.reason end as reason
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[]), (select $4::float8[]),
    (select $5::jsonb[]), (select $6::text[]), (select $8::jsonb[])) with ordinality
    as i (id, claim_id, verb, delay_ms, error, reason, waits, position)
  left join lateral (
    select job.id, job.queue, job.lease_generation, job.available_at, job.claimed_at, job.attempts, job.max_attempts,
      case when job.cancel_requested_at is not null and not leasehold.has_begun(job.id) then job.cancel_requested_at end
        as cancel_requested_at, job.cancel_requested_at is not null as cancelled, job.cancel_reason
    from leasehold.job
    where job.id = i.id and job.claim_id = i.claim_id
    limit 1
    for update skip locked
  ) j on true
), history as (
  insert into leasehold.job_attempt (job_id, claim_id, lease_generation, ended_at, started_at, worker_id, attempt, outcome,
    error)
  select id, claim_id, lease_generation, at, claimed_at, $7::uuid, attempts,
    case verb when 'release' then 'released' when 'snooze' then 'snoozed' when 'cancel' then 'cancelled'
      else 'failed' end::leasehold.attempt_outcome, error
  from looked where id is not null
), answered as materialized (
  select position, id, claim_id, queue, verb, next_at, next, error,
    case next when 'cancelled' then coalesce(case verb when 'cancel' then reason end, cancel_reason) else reason end as reason,
    coalesce(next, (
      select 'busy' from leasehold.job j where j.id = asked and j.claim_id = looked.claim_id
    ), 'refused') as outcome,
    case when waits <> '[]' then array(select jsonb_array_elements_text(waits)) end as waits_for,
    case when waits is not null and cancelled then true when waits <> '[]' then (
      select true from leasehold.signal s where s.job_id = looked.id and not s.consumed
        and s.name = any (array(select jsonb_array_elements_text(waits))) limit 1
    ) end as is_signalled
  from looked
)
select position, case outcome
    when 'pending' then leasehold.requeue(id, claim_id, case when is_signalled then leasehold.clock() else next_at end,
      verb in ('snooze', 'release'), verb = 'fail', case when is_signalled is null then waits_for end)
    else outcome
  end as outcome, array(
    select leasehold.finish(next::leasehold.job_status, array_agg(id), $7, array_agg(reason), array_agg(error))
    from answered where next in ('dead_letter', 'cancelled') group by next
  ) as finished, (
    select leasehold.wake(array_agg(distinct queue)) from answered
    where next = 'pending' and (verb = 'release' or is_signalled) having count(*) > 0
  ) as woken
from answered
where (select count(*) from answered) > 0`

// Workers that live, of leases that were swept.   $1 ids  $2 claim ids
export const FORGIVE = `-- job.forgive
select i.position, leasehold.forgive(i.id, i.claim_id) as forgiven
from unnest((select $1::bigint[]), (select $2::bigint[])) with ordinality as i (id, claim_id, position)`

// One job a call: a list of notes would need a join, and a handler reports on one job.
//   $1 id  $2 claim id  $3 progress
export const PROGRESS = `-- job.progress
with noted as (
  update leasehold.job set progress = $3::jsonb
  where id = (select id from leasehold.job where id = $1 and claim_id = $2 for update skip locked)
  returning id
)
select (select true from noted) as noted, (select true from leasehold.job where id = $1 and claim_id = $2) as held`

// Fails outside a transaction, and takes the lock that writing to the table takes anyway.
export const BE_IN_A_TRANSACTION = `-- job.be_in_a_transaction
lock table leasehold.job in row exclusive mode`

// The waiting lock, for the one job that a caller's transaction is about to complete.
export const HOLD = `-- job.hold
select id from leasehold.job where id = $1 and claim_id = $2 for update`

// Which of these running jobs should be cancelled.   $1 ids  $2 claim ids
export const CANCEL_REQUESTS = `-- job.cancel_requests
select i.id
from unnest((select $1::bigint[]), (select $2::bigint[])) as i (id, claim_id)
cross join lateral (
  select from leasehold.job
  where job.id = i.id and job.claim_id = i.claim_id and job.cancel_requested_at is not null
  limit 1
) j`

// What became of a claim whose outcome was sent and whose reply was lost. What ended it is on record under its claim id:
// in the archive, in dead_letter, or in job_attempt. Completed jobs that are not kept leave no trace, so the last answer is
// unknown, never stale.   $1 ids  $2 claim ids
export const RECORDED = `-- job.recorded
select i.position, coalesce(
  (select a.status::text from leasehold.archive a where a.id = i.id and a.claim_id = i.claim_id limit 1),
  (select case d.reason when 'lease_expired' then 'lease_expired' else 'dead_letter' end
    from leasehold.dead_letter d where d.id = i.id and d.claim_id = i.claim_id),
  (select 'held' from leasehold.job j where j.id = i.id and j.claim_id = i.claim_id),
  (select a.outcome::text from leasehold.job_attempt a where a.job_id = i.id and a.claim_id = i.claim_id limit 1),
  (select 'superseded' from leasehold.job j where j.id = i.id),
  (select 'superseded' from leasehold.archive a where a.id = i.id limit 1),
  (select 'superseded' from leasehold.dead_letter d where d.id = i.id),
  'unknown') as recorded
from unnest((select $1::bigint[]), (select $2::bigint[])) with ordinality as i (id, claim_id, position)`
