// Every outcome carries the generation of its claim, and that is the whole safety argument: a job row with this id, this
// generation and a claim on it can only be the one this worker claimed, because every claim raises the generation and
// everything that ends a claim clears claim_id or removes the row. The row is locked with that test; the rest of the
// statement acts on locked rows.
//
// SKIP LOCKED, so that no batch ever waits: a row that somebody else has locked (a cancel, a sweep, the handler's own
// transaction) is answered `busy` and asked again. Hence no lock order is needed among job rows, and no deadlock is
// possible between batches.

// Only what was not completed comes back: refused, or busy when the row is still ours but locked.
//   $1 ids  $2 generations  $3 results  $4 keep in the archive for so many ms, null: not at all  $5 worker id
export const COMPLETE = `-- job.complete
with looked as materialized (
  select i.id as asked, i.generation, i.result, i.keep_ms, j.*
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[]), (select $4::float8[]))
    as i (id, generation, result, keep_ms)
  left join lateral (
    select job.* from leasehold.job
    where job.id = i.id and job.lease_generation = i.generation and job.claim_id is not null
    limit 1
    for update skip locked
  ) j on true
), ended as (
  delete from leasehold.job where id = any (array(select id from looked where id is not null))
), archived as (
  insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claimed_at,
    claimed_by, status, attempts, max_attempts, priority, partition_bucket, payload_version, queue, kind, payload,
    partition_key, idempotency_key, metadata, tags, result)
  select id, leasehold.clock() + coalesce(keep_ms, 0) * interval '1 ms', leasehold.clock(), available_at, created_at, lease_generation, claimed_at, $5::uuid, 'completed', attempts,
    max_attempts, priority, partition_bucket, payload_version, queue, kind, payload, partition_key, idempotency_key,
    metadata, tags, result::jsonb
  from looked where id is not null and (keep_ms is not null or idempotency_key is not null)
)
select asked, generation, coalesce((
  select true from leasehold.job j
  where j.id = asked and j.lease_generation = looked.generation and j.claim_id is not null
), false)
from looked where id is null`

// The same for jobs that leave no trace: nothing of the row but its key is looked at, and nothing is written elsewhere. One
// that has an idempotency key is kept as long as the key, so it comes back as keyed, untouched, for COMPLETE.
//   $1 ids  $2 generations
export const COMPLETE_AND_FORGET = `-- job.complete_and_forget
with looked as materialized (
  select i.id as asked, i.generation, j.id, j.keyed
  from unnest((select $1::bigint[]), (select $2::bigint[])) as i (id, generation)
  left join lateral (
    select job.id, job.idempotency_key is not null as keyed from leasehold.job
    where job.id = i.id and job.lease_generation = i.generation and job.claim_id is not null
    limit 1
    for update skip locked
  ) j on true
), ended as (
  delete from leasehold.job where id = any (array(select id from looked where not keyed))
)
select asked, generation, coalesce((
  select true from leasehold.job j
  where j.id = asked and j.lease_generation = looked.generation and j.claim_id is not null
), false), keyed
from looked where id is null or keyed`

// Every outcome but success, one item each:
//   fail     spends the attempt; pending again after the delay, or a dead letter when attempts are used up
//   bury     a dead letter now, for the reason given
//   snooze   pending again after the delay, attempt handed back
//   release  pending again where it stood, attempt handed back
//   cancel   cancelled; a cancel that was asked for meanwhile turns fail, snooze and release into it
// A failure shows that the job does not kill its worker, and costs an attempt: crashes start again from zero.
//   $1 ids  $2 generations  $3 verbs  $4 delays in ms  $5 errors  $6 reasons  $7 worker id
export const SETTLE = `-- job.settle
with looked as materialized (
  select i.id as asked, i.generation as asked_generation, i.verb, i.reason, i.error::jsonb as error, j.*,
    leasehold.clock() as at,
    case i.verb when 'release' then j.available_at else leasehold.clock() + i.delay_ms * interval '1 ms' end as next_at,
    case
      when j.id is null then null
      when i.verb = 'bury' then 'dead_letter'
      when i.verb = 'cancel' or j.cancel_requested_at is not null then 'cancelled'
      when i.verb = 'fail' and j.attempts >= j.max_attempts then 'dead_letter'
      else 'pending'
    end as next
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[]), (select $4::float8[]),
    (select $5::text[]), (select $6::text[])) as i (id, generation, verb, delay_ms, error, reason)
  left join lateral (
    select job.* from leasehold.job
    where job.id = i.id and job.lease_generation = i.generation and job.claim_id is not null
    limit 1
    for update skip locked
  ) j on true
), history as (
  insert into leasehold.job_attempt (job_id, lease_generation, ended_at, started_at, worker_id, attempt, outcome, error)
  select id, lease_generation, at, claimed_at, $7::uuid, attempts,
    case verb when 'release' then 'released' else 'failed' end::leasehold.attempt_outcome, error
  from looked where id is not null and verb in ('fail', 'bury', 'release')
), ended as (
  delete from leasehold.job where id = any (array(select id from looked where next in ('dead_letter', 'cancelled')))
), buried as (
  insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, claimed_at, claimed_by,
    attempts, max_attempts, crashes, priority, partition_bucket, payload_version, blocked, queue, kind, reason, error,
    payload, partition_key, idempotency_key, metadata, tags)
  select id, at, available_at, created_at, lease_generation, claimed_at, $7::uuid, attempts, max_attempts, crashes,
    priority, partition_bucket, payload_version, blocked, queue, kind, coalesce(reason, 'attempts_exhausted'), error,
    payload, partition_key, idempotency_key, metadata, tags
  from looked where next = 'dead_letter'
), cancelled as (
  insert into leasehold.archive (id, finished_at, available_at, created_at, lease_generation, claimed_at, claimed_by,
    status, attempts, max_attempts, priority, partition_bucket, payload_version, queue, kind, payload, partition_key,
    idempotency_key, metadata, tags)
  select id, at, available_at, created_at, lease_generation, claimed_at, $7::uuid, 'cancelled', attempts, max_attempts,
    priority, partition_bucket, payload_version, queue, kind, payload, partition_key, idempotency_key, metadata, tags
  from looked where next = 'cancelled'
)
select asked, asked_generation, case
  when next = 'pending' then leasehold.hand_back(id, next_at, verb in ('snooze', 'release'), verb = 'fail')
  else coalesce(next, (
    select 'busy' from leasehold.job j
    where j.id = asked and j.lease_generation = asked_generation and j.claim_id is not null
  ), 'refused')
end
from looked`

// One job a call: a list of notes would need a join, and nobody reports on many jobs at once.
//   $1 id  $2 generation  $3 progress
export const PROGRESS = `-- job.progress
with noted as (
  update leasehold.job set progress = $3::jsonb
  where id = (
    select id from leasehold.job
    where id = $1 and lease_generation = $2 and claim_id is not null
    for update skip locked
  )
  returning true
)
select (select true from noted),
  (select true from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null)`

// Fails outside a transaction, and takes the lock that writing to the table takes anyway.
export const BE_IN_A_TRANSACTION = `-- job.be_in_a_transaction
lock table leasehold.job in row exclusive mode`

// The waiting lock, for the one job that a caller's transaction is about to complete.
export const HOLD = `-- job.hold
select id from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null for update`

// Which of these running jobs somebody asked to cancel.
export const CANCEL_REQUESTS = `-- job.cancel_requests
select i.id, i.generation
from unnest((select $1::bigint[]), (select $2::bigint[])) as i (id, generation)
cross join lateral (
  select from leasehold.job
  where job.id = i.id and job.lease_generation = i.generation and job.claim_id is not null
    and job.cancel_requested_at is not null
  limit 1
) j`

// What became of a claim whose outcome was sent and whose reply was lost. Completed jobs that were not kept leave no
// trace, so the last answer is unknown, never stale.
export const RECORDED = `-- job.recorded
select i.id, i.generation, coalesce(
  (select case when a.claimed_at is null then 'returned' else a.status::text end
    from leasehold.archive a where a.id = i.id and a.lease_generation = i.generation limit 1),
  (select case when d.reason in ('lease_expired', 'expired') then 'returned' else 'dead_letter' end
    from leasehold.dead_letter d where d.id = i.id and d.lease_generation = i.generation),
  (select case when j.lease_generation > i.generation then 'superseded'
      when j.claim_id is null then 'returned' else 'held' end
    from leasehold.job j where j.id = i.id and j.lease_generation >= i.generation),
  (select 'superseded' from leasehold.archive a where a.id = i.id and a.lease_generation > i.generation limit 1),
  (select 'superseded' from leasehold.dead_letter d where d.id = i.id and d.lease_generation > i.generation),
  'unknown')
from unnest((select $1::bigint[]), (select $2::bigint[])) as i (id, generation)`
