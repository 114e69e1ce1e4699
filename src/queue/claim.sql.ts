// The claim itself is a function in the database, leasehold.claim(): see migrations/0001_jobs.sql for its argument and
// decisions/0006 for why it lives there.
//   $1 claim id  $2 worker id  $3 worker label  $4 lease in ms  $5 limit  $6 kinds  $7–$10 spots  $11, $12 crashes
export const CLAIM = `-- job.claim
select * from leasehold.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// The fence of a renewal is the ledger row itself: the sweep deletes it, or marks it swept, before anyone can claim again.
export const RENEW = `-- claim.renew
update leasehold.claim set expires_at = leasehold.clock() + $3 * interval '1 ms'
where id = any ((select $1::bigint[])::bigint[]) and worker_id = $2 and not swept
returning id, expires_at`
