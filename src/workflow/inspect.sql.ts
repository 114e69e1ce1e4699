// $1 workflow  $2 run id
export const FIND_RUN = `-- run.find
select job_id from leasehold.idempotency_key where queue = $1 and key = $2`

// $1 job id
export const READ_STEPS = `-- run.steps
select place, name, nth, type, state, attempt, extract(epoch from started_at) * 1000 as started_ms,
  extract(epoch from recorded_at) * 1000 as recorded_ms, extract(epoch from wake_at) * 1000 as wake_ms, child_id, result, error,
  worker_label, lease_generation
from leasehold.steps where job_id = $1 order by place`

// $1 job id
export const READ_SIGNALS = `-- run.signals
select name, payload, consumed, extract(epoch from sent_at) * 1000 as sent_ms
from leasehold.signal where job_id = $1 order by id`

// $1 job id
export const READ_WAIT = `-- run.wait
select waiting_for::text as waiting_for from leasehold.job where id = $1 and claim_id is null`

//   $1 job id  $2 step  $3 nth  $4 whether it is a compensation
export const REWIND = `-- run.rewind
select leasehold.rewind($1, $2, $3, $4) as outcome`

//   $1 job id  $2 reason  $3 by
export const TERMINATE = `-- run.terminate
select leasehold.terminate($1, $2, $3) as outcome`

//   $1 job id  $2 whether it pauses  $3 by
export const PAUSE_RUN = `-- run.pause
select leasehold.pause_run($1, $2, $3) as outcome`
