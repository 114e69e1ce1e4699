// An index to be dropped first loses its name, in a transaction that holds the ledger lock. Its new name holds its oid and
// is never given to an index that is in use, so a late DROP hits nothing else.

// Written when a process is about to build or drop an index. It covers the moment until the statement has locked the table.
export const CREATE_TURNS = `-- migration_turn.create
create table if not exists leasehold.migration_turn (
  version integer not null,
  holder  uuid not null,
  until   timestamptz not null,
  constraint migration_turn_pkey primary key (version)
)`

// A row of this holder, one that has expired, and one set by a clock that has since jumped back can be taken.
//   $1 version  $2 holder
export const TAKE_TURN = `-- migration_turn.take
insert into leasehold.migration_turn (version, holder, until)
values ($1, $2, clock_timestamp() + interval '1 min')
on conflict (version) do update set holder = excluded.holder, until = excluded.until
where migration_turn.holder = excluded.holder
  or migration_turn.until not between clock_timestamp() and clock_timestamp() + interval '1 min'`

export const END_TURN = `-- migration_turn.end
delete from leasehold.migration_turn where version = $1`

// The named relations, and every index that lost its name. table_oid is null for a relation that is not an index.
//   $1 names
export const LOOK_AT_INDEXES = `-- migration.look_at_indexes
select c.relname as name, c.oid::text, i.indrelid::text as table_oid, i.indisvalid as is_valid
from pg_class c left join pg_index i on i.indexrelid = c.oid
where c.relnamespace = (select relnamespace from pg_class where oid = 'leasehold.migration'::regclass)
  and (c.relname = any ($1) or c.relname ~ '^discarded_index_[0-9]+$')
order by c.relname`

// CREATE INDEX CONCURRENTLY locks its table in this mode from before the index exists until it is valid. pg_locks shows the
// lock to every role. VACUUM and ANALYZE take the same lock, and give way to a build. The build releases the lock just
// before its last commit; until that commit its transaction is the xmax of the row in pg_index.
//   $1 table  $2 index, or null
export const IS_BEING_BUILT = `-- migration.is_being_built
select from pg_locks l
where l.pid <> pg_backend_pid() and l.granted and (
  l.locktype = 'relation' and l.mode = 'ShareUpdateExclusiveLock' and l.relation = $1::regclass
    and l.database = (select oid from pg_database where datname = current_database())
    and l.pid not in (select pid from pg_stat_progress_vacuum union all select pid from pg_stat_progress_analyze)
  or l.locktype = 'transactionid' and l.transactionid = (select xmax from pg_index where indexrelid = $2::oid)
)`

export const DISCARD_INDEX = `-- migration.discard_index
alter index leasehold.{index} rename to {discarded}`

export const DROP_DISCARDED = `-- migration.drop_discarded
drop index concurrently if exists leasehold.{discarded}`

// Also for psql, which goes on after a build that failed.
//   $1 version  $2 name  $3 serves_from  $4 indexes that must be valid
export const RECORD_IF_VALID = `-- migration.record_if_valid
insert into leasehold.migration (version, name, serves_from)
select $1, $2, $3
where (
  select count(*) from pg_index
  where indisvalid and indexrelid = any (select to_regclass(format('leasehold.%I', name)) from unnest($4::text[]) name)
) = cardinality($4::text[])`
