// The guard's statements name no table, so it needs no migration.

// Ends with the transaction: a caller that finds it is still in that transaction. Outside of one it ends with this
// statement.
export const MARK = `-- guard.mark
  select set_config('leasehold.guard', $1, true)`

// Refuses before it waits for a lock. CASE keeps the order: first the checks, then the timeout, then the locks, one after
// the other in sorted order, and when the last is held, the previous timeout. A wait reads the setting when it begins, so a
// setting made earlier in the same statement applies. The reason for each part: decisions/0022.
//   $1 keys   $2 lock_timeout in milliseconds   $3 the mark, or null when we have begun the transaction ourselves
export const LOCK = `-- guard.lock
  select case
      when asked.isolation not in ('read committed', 'read uncommitted') then asked.isolation
      when not asked.is_marked then 'no transaction'
      when set_config('lock_timeout', $2::text, true) is not null then (
        select case
            when count(pg_advisory_xact_lock(sorted.hash)) > 0
              and set_config('lock_timeout', asked.lock_timeout, true) is not null then 'locked'
          end
        from (
          select distinct hashtextextended('leasehold.guard:' || wanted.key, 0) as hash
          from unnest($1::text[]) as wanted (key)
          order by hash
          offset 0
        ) as sorted
      )
    end as answer
  from (
    select
      current_setting('transaction_isolation') as isolation,
      current_setting('lock_timeout') as lock_timeout,
      $3::text is null or coalesce(current_setting('leasehold.guard', true) = $3::text, false) as is_marked
    offset 0
  ) as asked`
