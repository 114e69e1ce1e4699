/** Calls of claim() so far, and what they took. Sessions report within a second of their last statement. */
export const CLAIMS_SO_FAR = `select coalesce(sum(calls), 0)::int as calls, coalesce(sum(total_time), 0)::float8 as ms
from pg_stat_user_functions where schemaname = 'leasehold' and funcname = 'claim'`
