// Runs that sleep for a year, as parking leaves them.   $1 how many
export const FILL_WITH_SLEEPERS = `-- bench.sleepers
with slept as (
  insert into leasehold.job (available_at, created_at, lease_generation, partition_bucket, queue, kind, payload, idempotency_key)
  select now() + interval '1 year' + n * interval '1 ms', now(), 1, 0, 'short', 'short@1', '0', 'sleeper ' || n
  from generate_series(1, $1::integer) n
  returning id, idempotency_key, salt
), kept as (
  insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
  select 'short', idempotency_key, id, interval '30 days', leasehold.input_hash('0'), now() + interval '30 days' from slept
)
insert into leasehold.step (job_id, recorded_at, started_at, wake_at, lease_generation, worker_id, place, nth, salt, attempt, state, type, name)
select id, now(), now(), now() + interval '1 year', 1, '00000000-0000-0000-0000-000000000000', 1, 1, salt, 1, 'waiting', 'sleep', 'sleep'
from slept`
