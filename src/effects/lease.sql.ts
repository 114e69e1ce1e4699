// Held until the caller's transaction ends: sweep and claim skip the row, an outcome returns busy. FOR SHARE, because
// several transactions of one job may hold it.   $1 job id  $2 claim id
export const ASSERT_LEASE = `-- lease.assert
select id from leasehold.job where id = $1 and claim_id = $2 for share`
