// Housekeeping is safe to run twice at once: it locks the ledger row first and skips rows that others hold.

// Returns the jobs of claims whose lease has expired, by the clock of this very statement. A job that a caller's
// transaction is completing is locked and stays with its claim, which is marked swept: it can no longer be renewed. It
// goes to the end of the line for a second, so that a hundred such claims do not keep the sweep from the others.
//
// A lost lease means a crash, and the job may be its cause: it leaves the ordinary claim index (crashes > 0). While the
// worker held other jobs none is to blame, and the attempt is returned; the job tries again in smaller company. It is
// blamed, and its attempt spent, when it was surely alone, or from its third crash on, when it was claimed alone
// (decisions/0007). It was not alone if another job of its claim is locked. It may have started, so it no longer expires.
//
// Of a run only the first job that is left can have started. The others waited for it: they are blocked again, and spent nothing.
// So is one that an earlier sweep found locked, if the one in front of it has become a dead letter since. That one may have started.
// What was returned is so before finish() lets the next job of a key in. The one in front may have been completed since this
// statement began: advance() looks once more.
// A job that is to be buried or cancelled stays with its claim as long as another of its run is locked: else that one would be
// claimed behind a dead letter, or return_rest() would wait for the transaction that has locked it.
//
// A sweep of one claim follows one that failed, in another session perhaps. Postgres answers before it rolls back, and would skip
// the claim that failed. So it waits for the oldest.
//   $1 claims at most  $2 jobs at most, give or take a claim  $3 whether a hold counts (LOOK_BEFORE_SWEEP)
export const SWEEP = `-- claim.sweep
with awaited as materialized (
  select id from leasehold.claim
  where expires_at <= leasehold.clock() and (select $1::bigint) = 1
  order by expires_at
  limit 1
  for update
), locked as materialized (
  select id, worker_id, job_ids, swept from leasehold.claim
  where expires_at <= leasehold.clock() and expires_at <= (
    select coalesce(case when $3 then swept_until end, 'infinity') from leasehold.sweep
  ) and (select count(*) from awaited) >= 0
  order by expires_at
  limit (select $1::bigint)
  for update skip locked
), expired as materialized (
  select id, worker_id, job_ids, swept
  from (select *, sum(cardinality(job_ids)) over (rows unbounded preceding) as so_far from locked) as counted
  where so_far - cardinality(job_ids) < $2
), looked as materialized (
  select e.id as claim, e.worker_id, e.swept, held.job_id, j.*
  from expired e
  cross join lateral (select distinct unnest(e.job_ids)) as held (job_id)
  left join lateral (
    select job.id, job.queue, job.partition_key, job.key_seq, job.lease_generation, job.claimed_at, job.attempts,
      job.max_attempts, job.crashes,
      case when job.cancel_requested_at is not null and not leasehold.has_begun(job.id) then job.cancel_requested_at end
        as cancel_requested_at, job.cancel_reason,
      job.key_seq is not null and exists (
        select from leasehold.queue q where q.name = job.queue and q.ordered
      ) and (exists (
        select from leasehold.job ahead
        where ahead.queue = job.queue and ahead.partition_key = job.partition_key and ahead.key_seq < job.key_seq
      ) or (
        select true from leasehold.dead_letter d
        where d.blocks_key and d.queue = job.queue and d.partition_key = job.partition_key and d.key_seq < job.key_seq
        limit 1
      ) is true) as waited
    from leasehold.job
    where job.id = held.job_id and job.claim_id = e.id
    limit 1
    for update skip locked
  ) j on true
), stuck as materialized (
  select looked.claim, j.*
  from looked
  cross join lateral (
    select job.queue, job.partition_key, job.key_seq is not null and (
        select q.ordered from leasehold.queue q where q.name = job.queue
      ) is true as in_order
    from leasehold.job
    where job.id = looked.job_id and job.claim_id = looked.claim
    limit 1
  ) j
  where looked.id is null
), judged as materialized (
  select *
  from (
    select *, leasehold.clock() as at,
      case
        when cancel_requested_at is not null then 'cancelled'
        when blamed and attempts >= max_attempts then 'dead_letter'
        else 'pending'
      end as next
    from (
      select looked.*, not waited and (crashes >= 2 or (
        count(id) filter (where not waited) over (partition by worker_id) = 1
        and (select count(*) from leasehold.claim c where c.worker_id = looked.worker_id) = 1
        and claim not in (select stuck.claim from stuck where not stuck.in_order)
      )) as blamed
      from looked where id is not null
    ) as live
  ) as verdict
  where next = 'pending' or key_seq is null or (claim, queue, partition_key) not in (
    select stuck.claim, stuck.queue, stuck.partition_key from stuck where stuck.in_order
  )
), history as (
  insert into leasehold.job_attempt (job_id, claim_id, lease_generation, ended_at, started_at, worker_id, attempt, outcome)
  select id, claim, lease_generation, at, claimed_at, worker_id, attempts, 'crashed' from judged where not waited
), returned as (
  update leasehold.job
  set claim_id = null, claimed_at = null, crashes = least(crashes, 32766) + 1, expires_at = null, blocked = false
  where id = any (array(select id from judged where next = 'pending' and blamed))
  returning id
), returned_unblamed as (
  update leasehold.job
  set claim_id = null, claimed_at = null, crashes = crashes + 1, attempts = attempts - 1, expires_at = null, blocked = false
  where id = any (array(select id from judged where next = 'pending' and not blamed and not waited))
  returning id
), returned_rest as (
  update leasehold.job
  set claim_id = null, claimed_at = null, attempts = attempts - 1, blocked = true,
    expires_at = case when id <> all (array(select id from judged where swept)) then expires_at end
  where id = any (array(select id from judged where next = 'pending' and waited))
  returning id
), marked as (
  update leasehold.claim set swept = true, expires_at = leasehold.clock() + interval '1 s'
  where id = any (array(select claim from stuck))
), closed as (
  delete from leasehold.claim
  where id = any (array(select id from expired where id not in (select claim from stuck)))
)
select claim, id, lease_generation, next, array(
    select leasehold.finish(next::leasehold.job_status, array_agg(id), worker_id,
      array_agg(case next when 'cancelled' then cancel_reason else 'lease_expired' end))
    from judged where next in ('dead_letter', 'cancelled')
      and (select count(*) from returned) + (select count(*) from returned_unblamed)
        + (select count(*) from returned_rest) >= 0
    group by next, worker_id
  ) as finished, (
    select leasehold.advance(array_agg(queue), array_agg(partition_key)) from judged
    where waited and (select count(*) from returned_rest) >= 0 having count(*) > 0
  ) as let_in
from judged
union all
select id, null, null, null, null, null from expired`

// Until when leases may be swept that expired: until now, unless the database was away. It was when its server has started
// since the last sweep looked, or when no sweep has looked for $1 ms. Then workers that live need time to renew or to release:
// for one lease only what had expired by the last look before is swept. A hold that ends later than one lease from now was
// set by a clock that has since jumped back.
// The second answer is whether there is anything to sweep.
//   $1 gap in ms  $2 lease in ms
export const LOOK_BEFORE_SWEEP = `-- sweep.look
with was as materialized (
  select looked_at, swept_until, hold_until, leasehold.clock() as at, pg_postmaster_start_time() as started,
    server_started <> pg_postmaster_start_time() or looked_at < leasehold.clock() - $1 * interval '1 ms' as away,
    hold_until between leasehold.clock() and leasehold.clock() + $2 * interval '1 ms' as held
  from leasehold.sweep
  for update
), noted as (
  update leasehold.sweep
  set server_started = (select started from was), looked_at = (select greatest(looked_at, at) from was),
    swept_until = (select case when away then looked_at when held then swept_until else at end from was),
    hold_until = (select case when away then at + $2 * interval '1 ms' else hold_until end from was)
)
select away, (select true from leasehold.claim where expires_at <= leasehold.clock() limit 1) as expired from was`

// The oldest expired claim waits a minute: a row of its own cannot be moved, and the others must not wait for it. It may still be
// locked by the sweep that failed, since Postgres answers before it rolls back.
export const POSTPONE_CLAIM = `-- claim.postpone
update leasehold.claim set expires_at = leasehold.clock() + interval '1 minute'
where id = (
  select id from leasehold.claim where expires_at <= leasehold.clock() order by expires_at limit 1 for update
)
returning id`

// Jobs that were not started in time. One that has started has no expires_at any more, unless it is claimed.   $1 jobs at most
export const EXPIRE = `-- job.expire
with due as materialized (
  select id from leasehold.job
  where expires_at is not null and expires_at <= leasehold.clock() and claim_id is null
  order by expires_at
  limit $1
  for update skip locked
)
select leasehold.finish('dead_letter', array_agg(id), null, array_agg('expired'::text)) as finished, array_agg(id) as ids
from due`

// What to announce of jobs that were just buried. $1 ids
export const BURIED = `-- dead_letter.buried
select id, kind, queue, partition_key, lease_generation, attempts, reason, error from leasehold.dead_letter
where id = any ((select $1::bigint[])::bigint[])`

// What sweeps and expiry have buried in the last $1 ms, for a process that lost a reply.
export const BURIED_LATELY = `-- dead_letter.buried_lately
select id, lease_generation from leasehold.dead_letter
where died_at >= leasehold.clock() - $1 * interval '1 ms' and reason in ('lease_expired', 'expired')
order by died_at, id
limit 10000`

// A dead letter stays as long as its idempotency key has to, and while it blocks its partition key.   $1 age in ms  $2 dead letters at most
export const PRUNE_DEAD_LETTERS = `-- dead_letter.prune
delete from leasehold.dead_letter
where id = any (array(
  select id from leasehold.dead_letter d
  where died_at <= leasehold.clock() - $1 * interval '1 ms' and not blocks_key and (
    select true from leasehold.idempotency_key k
    where k.queue = d.queue and k.key = d.idempotency_key and d.died_at > leasehold.clock() - k.keep_for
  ) is null
  order by died_at, id
  limit $2
  for update skip locked
))
returning id`

// Looks at the keys that are due, and at no other. A key goes when its job is finished and was so long enough ago. Finished jobs
// with a key are always archived, and neither the archive nor a dead letter is forgotten before its key may be, so absence
// means long ago. A key that stays is due again when it may be free at the earliest; for that it is inserted once more, since
// a conflict finds its row by the unique index under any plan. The row is locked: it cannot have gone.
//   $1 keys to look at
export const PRUNE_KEYS = `-- idempotency_key.prune
with due as materialized (
  select queue, key, job_id, keep_for, input_hash from leasehold.idempotency_key
  where due_at <= leasehold.clock()
  order by due_at
  limit $1
  for update skip locked
), judged as materialized (
  select *, case
    when (select true from leasehold.job j where j.id = due.job_id) then
      leasehold.clock() + greatest(keep_for, interval '10 minutes')
    when (select true from leasehold.dead_letter d where d.id = due.job_id) then
      leasehold.clock() + least(greatest(keep_for, interval '10 minutes'), interval '1 day')
    else (
      select a.finished_at + keep_for from leasehold.archive a
      where a.id = due.job_id and a.finished_at > leasehold.clock() - keep_for limit 1
    )
  end as again_at
  from due
), pruned as (
  delete from leasehold.idempotency_key
  where job_id = any (array(select job_id from judged where again_at is null))
  returning job_id
), kept as (
  insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
  select queue, key, job_id, keep_for, input_hash, again_at from judged where again_at is not null
  on conflict (queue, key) do update set due_at = excluded.due_at
)
select (select count(*) from pruned) as pruned, (select count(*) from due) as looked`

// Only the default partitions are pruned row by row; the others are dropped whole.   $1 rows at most
export const PRUNE_DEFAULT_ARCHIVE = `-- archive.prune_default
delete from leasehold.archive_default
where id = any (array(
  select id from leasehold.archive_default a
  where forget_at <= leasehold.clock() and (
    select true from leasehold.idempotency_key k
    where k.queue = a.queue and k.key = a.idempotency_key and k.job_id = a.id
      and a.finished_at > leasehold.clock() - k.keep_for
  ) is null
  limit $1
)) and forget_at <= leasehold.clock()
returning id`

// $1 age in ms  $2 rows at most
export const PRUNE_DEFAULT_ATTEMPTS = `-- job_attempt.prune_default
delete from leasehold.job_attempt_default
where job_id = any (array(
  select job_id from leasehold.job_attempt_default where ended_at <= leasehold.clock() - $1 * interval '1 ms' limit $2
)) and ended_at <= leasehold.clock() - $1 * interval '1 ms'
returning job_id`

export const MAKE_PARTITIONS = `-- partition.make
select leasehold.make_partitions($1) as made`

export const DROP_PARTITIONS = `-- partition.drop
select leasehold.drop_partitions($1 * interval '1 ms') as dropped`

// As many days as the kind that is kept longest needs, at most 90, and a week to spare.
export const MAKE_PARTITIONS_AHEAD = `-- partition.make_ahead
select leasehold.make_partitions(7 + least(90, greatest(7, ceil(
  (select extract(epoch from max(keep)) from leasehold.kind) / 86400
)))::integer) as count`

export const DROP_PARTITIONS_PAST = `-- partition.drop_past
select leasehold.drop_partitions((select keep_attempts from leasehold.settings)) as count`

export const RESERVE_PAGES = `-- partition.reserve_pages
select leasehold.reserve_pages() as reserved`
