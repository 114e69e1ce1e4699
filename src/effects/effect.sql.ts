// Two fences. The job row, locked with the test of id, generation and claim, says whether this worker may begin
// something; FOR SHARE, so that several effects of one job can be under way, and neither sweep nor claim nor outcome comes
// between the test and the marker. The run on the marker says whose news about it counts: a statement of an earlier run that
// arrives late finds another one, also within a generation.
//   $1 job id  $2 generation  $3 name  $4 run id

// One statement: the marker is there if and only if the lease was held. held is null when the lease is gone; otherwise the
// marker was begun just now, or it was there before, and the rest says by whom. Neither: somebody made it since this
// statement's snapshot, so ask again.
export const BEGIN = `-- effect.begin
with held as materialized (
  select id from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null for share
), begun as (
  insert into leasehold.effect (job_id, name, lease_generation, run_id, started_at)
  select id, $3, $2, $4, leasehold.clock() from held
  on conflict (job_id, name) do nothing
  returning started_at
), found as materialized (
  select run_id, started_at, finished_at is not null as done, result
  from leasehold.effect where job_id = $1 and name = $3
)
select (select true from held), (select true from begun), (select run_id from found), (select done from found),
  extract(epoch from coalesce((select started_at from begun), (select started_at from found))) * 1000,
  (select result from found)`

// For those who would rather do it twice than not at all.   $5 the run that was found
export const TAKE_OVER = `-- effect.take_over
with held as materialized (
  select id from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null for share
), taken as (
  update leasehold.effect set lease_generation = $2, run_id = $4, started_at = leasehold.clock()
  where job_id = (select id from held) and name = $3 and run_id = $5 and finished_at is null
  returning true
)
select (select true from held), (select true from taken)`

// That it happened is true whether or not the lease still lasts: while the marker is ours, nobody else has begun it, and
// whoever comes next is spared the question. The handler is told if it has lost the job.   $5 result
export const DONE = `-- effect.done
with noted as (
  update leasehold.effect set finished_at = leasehold.clock(), result = $5::jsonb
  where job_id = $1 and name = $3 and run_id = $4 and finished_at is null
  returning true
)
select coalesce((select true from noted),
    (select true from leasehold.effect
      where job_id = $1 and name = $3 and run_id = $4 and finished_at is not null)),
  (select true from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null)`

// It certainly did not happen.   $1 job id  $2 name  $3 run id
export const NOT_DONE = `-- effect.not_done
delete from leasehold.effect where job_id = $1 and name = $2 and run_id = $3 and finished_at is null`

// In the caller's transaction: an effect that throws leaves neither a half of itself nor its marker, and the transaction can
// go on. The lock on the job row is taken before it, or it would go with it.
export const SAVEPOINT = `-- effect.savepoint
savepoint leasehold_effect`

export const RELEASE = `-- effect.release
release savepoint leasehold_effect`

export const ROLL_BACK = `-- effect.roll_back
rollback to savepoint leasehold_effect`

// $1 job id
export const LIST_EFFECTS = `-- effect.list
select name, lease_generation, extract(epoch from started_at) * 1000, extract(epoch from finished_at) * 1000, result
from leasehold.effect where job_id = $1 order by started_at, name`

// A person has found out. Not while the job is processing: its worker may be doing it this moment. The job row, if it is
// not a dead letter, is locked, so that nobody claims it meanwhile.
//   $1 job id  $2 name  $3 whether it happened  $4 result
export const SETTLE_EFFECT = `-- effect.settle
with waiting as materialized (
  select claim_id is not null as claimed from leasehold.job where id = $1 for share
), done as (
  update leasehold.effect set finished_at = leasehold.clock(), result = $4::jsonb
  where job_id = $1 and name = $2 and finished_at is null and $3::boolean
    and (select claimed from waiting) is not true
  returning true
), removed as (
  delete from leasehold.effect
  where job_id = $1 and name = $2 and finished_at is null and not $3::boolean
    and (select claimed from waiting) is not true
  returning true
)
select coalesce((select true from done), (select true from removed)), (select claimed from waiting)`

// Walks the effects in the order of their jobs, a bounded number a call, from where the last call ended. While a job can
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
  returning true
)
select (select count(*) from pruned), (select count(*) from looked), (select max(job_id) from looked)`
