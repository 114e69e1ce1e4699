// The claim itself is a function in the database, leasehold.claim(): migrations/0003_claim_and_finish.sql has its argument,
// and decisions/0006 says why it lives there.
//   $1 claim id  $2 worker id  $3 lease in ms  $4 limit  $5 kinds  $6–$9 spots, or $6 queues  $10, $11 due for so many ms
//   $12, $13 crashes  $14 buckets of each spot or null  $15 share  $16 run length  $17 lines or null
export const CLAIM = `-- job.claim
select * from leasehold.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, older_ms => $10, younger_ms => $11,
  crashes_from => $12, crashes_to => $13, buckets => $14, share => $15,
  run_length => $16, lines => $17)`

// The fence of a renewal is the ledger row itself: sweep and release delete it, or note that they returned a part, before the next
// claim.
export const RENEW = `-- claim.renew
update leasehold.claim set expires_at = leasehold.clock() + $3 * interval '1 ms'
where id = any ((select $1::bigint[])::bigint[]) and worker_id = $2 and not swept
returning id`

// Claims whose every job has its outcome. The sweep would remove them when their leases expire; this keeps the ledger
// short, and shows the sweep which job was the only one of its worker. A failover may have lost an outcome that this worker was
// known: then the job is still held under the claim, which stays for the sweep to find.
export const CLOSE = `-- claim.close
delete from leasehold.claim c
where id = any ((select $1::bigint[])::bigint[]) and worker_id = $2
  and (select true from leasehold.job j where j.id = any (c.job_ids) and j.claim_id = c.id limit 1) is null`

// How many suspects wait, up to $3: a look, so that a worker stops claiming other jobs only when it has to.
//   $1 queues  $2 kinds  $4 buckets of each queue, or null
export const COUNT_SUSPECTS = `-- job.count_suspects
select count(*) as count from (
  select from unnest((select $1::text[]), (select $4::bytea[])) as i (queue, buckets)
  cross join lateral (
    select from leasehold.job
    where job.queue = i.queue and not job.blocked and job.crashes > 0 and job.available_at <= leasehold.clock()
      and job.claim_id is null and job.kind = any ((select $2::text[])::text[])
      and (job.expires_at is null or job.expires_at > leasehold.clock())
      and (i.buckets is null or job.line = 0 or get_bit(i.buckets, job.line - 1) = 1)
      and job.kind <> all (array(select kind from leasehold.pause where kind is not null))
    limit $3
  ) j
  where i.queue <> all (array(select queue from leasehold.pause where queue is not null))
  limit $3
) as waiting`

// Releases a whole claim whose reply was lost, without knowing what is in it. The jobs never started: attempt and place in
// the line are kept. A job whose cancellation was requested is cancelled, after the others have gone back: finish() may return
// the rest of its run. A worker is woken, as by an enqueue. Not closed: another transaction has locked one of the jobs. Then the claim is
// marked, as by the sweep: what is left of a run may be behind a job that another claim takes. And none is cancelled, since
// return_rest() might wait for that transaction. advance(): the first of a key may be in no claim index, if one in front of it has left.
//   $1 claim id  $2 worker id
export const RELEASE_CLAIM = `-- claim.release
with mine as materialized (
  select id, worker_id, job_ids from leasehold.claim where id = $1 and worker_id = $2 for update
), looked as materialized (
  select mine.id as claim, held.job_id, j.*
  from mine
  cross join lateral (select distinct unnest(mine.job_ids)) as held (job_id)
  left join lateral (
    select job.id, job.queue, job.lease_generation, job.cancel_reason,
      case when job.cancel_requested_at is not null and not leasehold.has_begun(job.id) then job.cancel_requested_at end
        as cancel_requested_at
    from leasehold.job
    where job.id = held.job_id and job.claim_id = mine.id
    limit 1
    for update skip locked
  ) j on true
), locked as materialized (
  select from looked
  where id is null and (select true from leasehold.job j where j.id = looked.job_id and j.claim_id = looked.claim)
), returned as (
  update leasehold.job
  set claim_id = null, claimed_at = null, attempts = attempts - 1, blocked = blocked and (
      select q.ordered from leasehold.queue q where q.name = job.queue
    ) is true
  where id = any (array(select id from looked where id is not null and cancel_requested_at is null))
  returning id, queue, partition_key, key_seq
), marked as (
  update leasehold.claim set swept = true
  where id = any (array(select id from mine)) and exists (select from locked)
), closed as (
  delete from leasehold.claim
  where id = any (array(select id from mine)) and not exists (select from locked)
)
select id, lease_generation, not exists (select from locked) as closed, (
    select leasehold.finish('cancelled', array_agg(id), $2, array_agg(cancel_reason))
    from looked where cancel_requested_at is not null and not exists (select from locked) and (select count(*) from returned) >= 0
  ) as finished, (
    select leasehold.wake(array_agg(distinct queue)) from looked
    where id is not null and cancel_requested_at is null having count(*) > 0
  ) as woken, (
    select leasehold.advance(array_agg(queue), array_agg(partition_key)) from returned
    where key_seq is not null having count(*) > 0
  ) as let_in
from looked where id is not null and (cancel_requested_at is null or not exists (select from locked))`
