// Held until the caller's transaction ends: sweep and claim pass the row over, an outcome answers busy. FOR SHARE, because
// several transactions of one job may hold it.   $1 job id  $2 generation
export const ASSERT_LEASE = `-- lease.assert
select id from leasehold.job where id = $1 and lease_generation = $2 and claim_id is not null for share`
