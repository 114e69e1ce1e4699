// The clock of a test database. One row holds how far leasehold.clock() is ahead of the server's.

// Two test files may share a database.
export const LOCK_CLOCK = `-- clock.lock
lock table leasehold.settings in share row exclusive mode`

export const LOOK_AT_CLOCK = `-- clock.look
select to_regclass('leasehold.test_clock') is not null as there, exists (select from leasehold.jobs) as has_jobs`

export const MAKE_CLOCK_TABLE = `-- clock.make_table
create table leasehold.test_clock (shift interval not null)`

export const START_CLOCK = `-- clock.start
insert into leasehold.test_clock (shift) values ('0')`

// Workers and producers may have roles of their own.
export const SHOW_CLOCK = `-- clock.show
grant select on leasehold.test_clock to public`

export const REPLACE_CLOCK = `-- clock.replace
create or replace function leasehold.clock() returns timestamptz
  language sql stable
  return pg_catalog.statement_timestamp() + (select shift from leasehold.test_clock)`

//   $1 ms
export const MOVE_CLOCK = `-- clock.move
update leasehold.test_clock set shift = shift + $1 * interval '1 ms' returning shift`

// Nothing, if it has passed.   $1 moment
export const MOVE_CLOCK_TO = `-- clock.move_to
update leasehold.test_clock set shift = $1::timestamptz - pg_catalog.statement_timestamp()
where $1::timestamptz >= leasehold.clock()
returning shift`

// Workers would look for what has become due at their next poll.
export const WAKE_WORKERS = `-- clock.wake_workers
select leasehold.tell('help', queue)
from (select distinct queue from leasehold.jobs where status = 'pending' and available_at <= leasehold.clock()) due`

// Sweeps go on while time passes: a gap between two of them would mean that the database was away.
export const KEEP_SWEEPING = `-- clock.keep_sweeping
update leasehold.sweep set looked_at = leasehold.clock() where looked_at is not null`

export const READ_CLOCK = `-- clock.read
select extract(epoch from leasehold.clock()) * 1000 as now_ms`

//   $1 application name
export const SESSIONS_LEFT = `-- clock.sessions_left
select count(*) as left from pg_catalog.pg_stat_activity
where application_name = $1 and datname = current_database()`

// Whether something could happen now, and in how many ms the next thing happens by itself.
//   $1 kinds
export const NEXT_EVENT = `-- clock.next_event
with event as (
  select available_at as at from leasehold.jobs
  where status = 'pending' and kind = any ($1) and label in ('ready', 'scheduled', 'retrying', 'waiting')
  union all
  select expires_at from leasehold.claim c
  where exists (select from leasehold.job j where j.id = any (c.job_ids) and j.claim_id = c.id and j.kind = any ($1))
)
select coalesce(bool_or(at <= leasehold.clock()), false) as due,
  extract(epoch from min(at) filter (where at > leasehold.clock()) - leasehold.clock())::float8 * 1000 as next_ms
from event`
