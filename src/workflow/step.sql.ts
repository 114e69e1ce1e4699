// The steps of runs. Every write locks the row of the job with the test of its claim, FOR SHARE: several branches of a run may
// record at a time, and neither a sweep nor a claim nor an outcome comes between the test and the record. SKIP LOCKED, so that
// no batch waits: what another transaction has locked is answered `busy` and sent again.
//
// `after` is the last place whose record was acknowledged to this worker. If that row is not there, a failover has lost it: the worker
// is ahead of the database, and its record is refused. The run starts again from what is on record.

// A record shows that the job does not kill its worker: attempts and crashes count from here.
//   $1 job ids  $2 claim ids  $3 places  $4 after  $5 names  $6 nths  $7 types  $8 states  $9 attempts  $10 results  $11 errors
//   $12 ms until wake_at  $13 signal ids  $14 started so many ms ago  $15 worker id
export const RECORD = `-- step.record
with looked as materialized (
  select i.*, j.id as held, j.salt, j.lease_generation, j.attempts as spent, j.crashes
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::integer[]), (select $4::integer[]), (select $5::text[]),
    (select $6::integer[]), (select $7::text[]), (select $8::text[]), (select $9::smallint[]), (select $10::json[]),
    (select $11::jsonb[]), (select $12::float8[]), (select $13::bigint[]), (select $14::float8[])) with ordinality
    as i (job_id, claim_id, place, after, name, nth, type, state, attempt, result, error, wake_ms, signal_id, ago_ms, position)
  left join lateral (
    select job.id, job.salt, job.lease_generation, job.attempts, job.crashes from leasehold.job
    where job.id = i.job_id and job.claim_id = i.claim_id
    limit 1
    for share skip locked
  ) j on true
), judged as materialized (
  select looked.*, held is not null and (after = 0 or (
    select true from leasehold.step s where s.job_id = held and s.place = after and s.salt = looked.salt
  ) is not null) as good
  from looked
), added as (
  insert into leasehold.step (job_id, recorded_at, started_at, wake_at, lease_generation, signal_id, worker_id, place, nth, salt,
    attempt, state, type, name, result, error)
  select job_id, leasehold.clock(), leasehold.clock() - ago_ms * interval '1 ms', leasehold.clock() + wake_ms * interval '1 ms',
    lease_generation, signal_id, $15::uuid, place, nth, salt, attempt, state::leasehold.step_state, type, name, result, error
  from judged where good
  on conflict do nothing
)
select position, (
    select leasehold.consume(array_agg(held), array_agg(signal_id)) from judged where good and signal_id is not null having count(*) > 0
  ) as consumed, (
    select leasehold.count_from_here(array_agg(held)) from judged where good and (spent > 1 or crashes > 0) having count(*) > 0
  ) as restarted, case when good then 'recorded' when held is not null then 'refused' else coalesce((
    select 'busy' from leasehold.job j where j.id = judged.job_id and j.claim_id = judged.claim_id
  ), 'refused') end as outcome
from judged`

// In the caller's transaction, which holds the lease from here on until it ends.   $1 job id  $2 claim id
export const HOLD_RUN = `-- step.hold_run
select id from leasehold.job where id = $1 and claim_id = $2 for share`

//   $1 run  $2 claim id  $3 place  $4 after  $5 name  $6 nth  $7 kind  $8 payload  $9 options  $10 worker id
export const START_CHILD = `-- step.start_child
select leasehold.start_child($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9::jsonb, $10) as child`

// All that is on record of these runs, and the signals that they have not consumed. A run that is not held any more has no row. A run
// may have any number of signals that it does not wait for. If there are as many as the limit, which are here is not known,
// and the run asks for those of the names that it waits for (RECEIVE).
//   $1 job ids  $2 claim ids
export const LOAD = `-- step.load
with run as materialized (
  select j.* from unnest((select $1::bigint[]), (select $2::bigint[])) as i (id, claim_id)
  cross join lateral (
    select job.id, job.salt, job.idempotency_key, job.cancel_requested_at is not null as cancelled, job.cancel_reason,
      job.created_at, job.waiting_for = '{}' as paused
    from leasehold.job where job.id = i.id and job.claim_id = i.claim_id limit 1
  ) j
)
select 'run' as what, id, null::integer as place, idempotency_key as name, null::integer as nth, null as type,
  case when cancelled then 'cancelled' when paused then 'paused' end as state, null::smallint as attempt,
    extract(epoch from created_at - leasehold.clock())::float8 * 1000 as wake_ms, null::bigint as other_id,
  cancel_reason as result, null as error
from run
union all
select 'step', s.job_id, s.place, s.name, s.nth, s.type, s.state::text, s.attempt,
  extract(epoch from s.wake_at - leasehold.clock())::float8 * 1000, s.child_id, s.result::text, s.error::text
from run cross join lateral (
  select * from leasehold.step where step.job_id = run.id and step.salt = run.salt limit 100000
) s
union all
select 'signal', s.job_id, null, s.name, null, null, null, null, null, s.id, s.payload::text, null
from run cross join lateral (
  select * from leasehold.signal where signal.job_id = run.id and signal.salt = run.salt and not consumed limit 1000
) s`

// The first signals of a name that a run has not consumed.   $1 job ids  $2 claim ids  $3 names
export const RECEIVE = `-- signal.receive
select i.position, s.id, s.name, s.payload::text as payload
from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[])) with ordinality as i (job_id, claim_id, name, position)
cross join lateral (
  select job.id, job.salt from leasehold.job where job.id = i.job_id and job.claim_id = i.claim_id limit 1
) j
cross join lateral (
  select signal.id, signal.name, signal.payload from leasehold.signal
  where signal.job_id = j.id and signal.name = i.name and not consumed and signal.salt = j.salt
  order by signal.id limit 100
) s`

//   $1 workflow  $2 run id  $3 name  $4 payload  $5 idempotency key
export const SIGNAL = `-- signal.send
select leasehold.signal($1, $2, $3, $4::jsonb, $5) as outcome`

// The jobs that a run has started, without those that it has joined.   $1 run
export const CHILDREN = `-- step.children
select child_id from leasehold.step where job_id = $1 and child_id is not null and not joined`
