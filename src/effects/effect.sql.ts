// Two fences. The job row, locked with the test of id and claim, decides whether this worker may begin an effect; FOR SHARE,
// so that several effects of one job can be in flight, and neither sweep nor claim nor outcome comes between the test and
// the marker. The run on the marker decides whose report about it counts: a late statement of an earlier run finds another
// run, also within one claim.
//   $1 job id  $2 claim id  $3 name  $4 run id

// One statement: the marker exists if and only if the lease was held. held is null when the lease is gone; otherwise the
// marker was begun just now, or it existed before, and the other columns name its run. Neither: another session inserted it
// after this statement's snapshot, so the caller sends it again.
export const BEGIN = `-- effect.begin
with held as materialized (
  select id, lease_generation, salt from leasehold.job where id = $1 and claim_id = $2 for share
), begun as (
  insert into leasehold.effect (job_id, name, lease_generation, salt, run_id, started_at)
  select id, $3, lease_generation, salt, $4, leasehold.clock() from held
  on conflict (job_id, name, salt) do nothing
  returning started_at
), found as materialized (
  select run_id, started_at, finished_at is not null as done, result
  from leasehold.effect where job_id = $1 and name = $3 and salt = (select salt from held)
)
select (select true from held) as held, (select true from begun) as begun, (select run_id from found) as run_id,
  (select done from found) as done, (select result::text from found) as result,
  extract(epoch from coalesce((select started_at from begun), (select started_at from found))) * 1000 as started_ms`

// For ifUnknown: 'retry', which prefers to run the effect twice over not at all.   $5 the run that was found
export const TAKE_OVER = `-- effect.take_over
with held as materialized (
  select id, lease_generation from leasehold.job where id = $1 and claim_id = $2 for share
), taken as (
  update leasehold.effect
  set lease_generation = (select lease_generation from held), run_id = $4, started_at = leasehold.clock()
  where job_id = (select id from held) and name = $3 and run_id = $5 and finished_at is null
  returning job_id
)
select (select true from held) as held, (select true from taken) as taken`

// Recorded whether or not the lease still lasts: while the marker is ours, no other run has begun the effect, and the next
// attempt then knows that it happened. `held` shows the handler whether it has lost the job.   $5 result
export const DONE = `-- effect.done
with noted as (
  update leasehold.effect set finished_at = leasehold.clock(), result = $5::text::jsonb
  where job_id = $1 and name = $3 and run_id = $4 and finished_at is null
  returning job_id
)
select coalesce((select true from noted),
    (select true from leasehold.effect
      where job_id = $1 and name = $3 and run_id = $4 and finished_at is not null)) as recorded,
  (select true from leasehold.job where id = $1 and claim_id = $2) as held`

// The effect certainly did not happen.   $1 job id  $2 name  $3 run id
export const NOT_DONE = `-- effect.not_done
delete from leasehold.effect where job_id = $1 and name = $2 and run_id = $3 and finished_at is null`

// $1 job id
export const LIST_EFFECTS = `-- effect.list
select name, lease_generation, extract(epoch from started_at) * 1000 as started_ms,
  extract(epoch from finished_at) * 1000 as finished_ms, result
from leasehold.effect where job_id = $1 order by started_at, name`

// An operator reports the outcome. Refused while the job is processing: its worker may be running the effect. The job's row
// is locked, or that of its dead letter, so that it can be neither claimed nor redriven meanwhile.
//   $1 job id  $2 name  $3 whether it happened  $4 result  $5 by
export const SETTLE_EFFECT = `-- effect.settle
with waiting as materialized (
  select claim_id is not null as claimed from leasehold.job where id = $1 for share
), dead as materialized (
  select id from leasehold.dead_letter where id = $1 for share
), done as (
  update leasehold.effect set finished_at = leasehold.clock(), result = $4::jsonb
  where job_id = $1 and name = $2 and finished_at is null and $3::boolean
    and (select claimed from waiting) is not true and (select count(*) from dead) >= 0
  returning job_id
), removed as (
  delete from leasehold.effect
  where job_id = $1 and name = $2 and finished_at is null and not $3::boolean
    and (select claimed from waiting) is not true and (select count(*) from dead) >= 0
  returning job_id
), noted as (
  insert into leasehold.operator_action (at, action, by, outcome, job_id, detail)
  select leasehold.clock(), 'settle_effect', $5::text, case when $3::boolean then 'happened' else 'did_not_happen' end,
    job_id, $2::text
  from (select job_id from done union all select job_id from removed) as settled
)
select coalesce((select true from done), (select true from removed)) as settled, (select claimed from waiting) as claimed`

// Walks the effects in the order of their jobs, a bounded number per call, from where the last call ended. While a job can
// run again, also after a redrive, its effects stay.
//   $1 job id to start after  $2 effects to look at  $3 age in ms
export const PRUNE_EFFECTS = `-- effect.prune
with looked as materialized (
  select job_id from leasehold.effect where job_id > $1 order by job_id limit $2
), pruned as (
  delete from leasehold.effect
  where job_id = any (array(
      select job_id from looked e
      where (select true from leasehold.job j where j.id = e.job_id) is null
        and (select true from leasehold.dead_letter d where d.id = e.job_id) is null
    ))
    and coalesce(finished_at, started_at) <= leasehold.clock() - $3 * interval '1 ms'
  returning job_id
)
select (select count(*) from pruned) as pruned, (select count(*) from looked) as looked,
  (select max(job_id) from looked) as last`
