// Every attempt of a job that has ended, oldest first.   $1 job id
export const LIST_ATTEMPTS = `-- inspect.list_attempts
select attempt, lease_generation, outcome, worker_id, worker_label, error,
  extract(epoch from started_at) * 1000 as started_ms, extract(epoch from ended_at) * 1000 as ended_ms
from leasehold.attempts where job_id = $1
order by lease_generation, ended_at`
