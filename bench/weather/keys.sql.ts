// Keys whose jobs are finished, in place of a month of enqueues and completions.

export const MOVABLE_CLOCK = `
create table public.shift (by interval not null);
insert into public.shift values ('0');
create or replace function leasehold.clock() returns timestamptz language sql stable
  as $$ select pg_catalog.statement_timestamp() + (select by from public.shift) $$`

export const NEXT_DAY = `update public.shift set by = by + interval '1 day'`

//   $1 day  $2 how many  $3 kept for
export const ADD_KEYS = `
with added as (
  insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
  select 'task', $1::text || '/' || n, nextval('leasehold.job_id'), $3::interval, '\\x00', leasehold.key_due_at($3::interval)
  from generate_series(1, $2::int) n
  returning key, job_id
)
insert into leasehold.archive (id, forget_at, finished_at, available_at, created_at, lease_generation, claim_id, claimed_at,
  status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload, idempotency_key)
select job_id, at + interval '7 days', at, at, at, 1, 1, at, 'completed', 1, 5, 5, 0, 'task', 'task', '1', key
from added, leasehold.clock() at`

export const COUNT_KEYS = 'select count(*)::int as keys from leasehold.idempotency_key'
