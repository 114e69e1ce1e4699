// $1 live jobs, over ten queues: a seventh is due in a day, some are claimed, the last queue's wait in keys.
export const FILL_LIVE = `
insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, priority, lease_generation, claim_id,
  claimed_at, attempts, partition_key, key_seq, blocked)
select n, clock.at + case when n % 7 = 0 then interval '1 day' else n * interval '1 ms' end, clock.at, n % 1024, 'queue ' || n % 10,
  'kind ' || n % 10, '{"order": 9182}', n % 3 + 4, 1, case when n <= 1000 then 1 end, case when n <= 1000 then clock.at end,
  case when n <= 1000 then 1 else n % 2 end, case when n % 10 = 9 then 'key ' || n % 1000 end, case when n % 10 = 9 then n end,
  n % 10 = 9 and n > 1000
from generate_series(1, $1::int) n, (select leasehold.clock() - interval '1 hour' as at) clock`

export const FILL_CLAIM = `
insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
values (1, gen_random_uuid(), now(), now() + interval '1 hour', array(select generate_series(1, 1000)))`

// $1 archived jobs
export const FILL_ARCHIVE = `
insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id, claimed_at, status,
  attempts, max_attempts, priority, partition_bucket, queue, kind, payload)
select 10000000 + n, now() + (n % 7) * interval '1 day', now(), now(), now(), 1, 1, now(), 'completed', 1, 5, 5, 0, 'queue ' || n % 10,
  'kind ' || n % 10, '{"order": 9182}'
from generate_series(1, $1::int) n`

// $1 dead letters
export const FILL_DEAD_LETTERS = `
insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts, crashes, priority,
  partition_bucket, salt, queue, kind, reason, payload)
select 20000000 + n, now() - n * interval '1 second', now(), now(), 1, 1, 5, 0, 5, 0, 1, 'queue ' || n % 10, 'kind ' || n % 10, 'fatal', '1'
from generate_series(1, $1::int) n`
