export const SCHEMA_EXISTS = 'select from pg_namespace where nspname = $1'

export const CREATE_LEDGER = `create table if not exists leasehold.migration (
  version     integer not null,
  name        text not null,
  serves_from integer not null,
  applied_at  timestamptz not null default now(),
  constraint migration_pkey primary key (version)
)`

export const READ_LEVEL = 'select max(version) as version, max(serves_from) as serves_from from leasehold.migration'

export const LOCK_LEDGER = 'lock table leasehold.migration in exclusive mode'

export const IS_APPLIED = 'select from leasehold.migration where version = $1'

export const RECORD = 'insert into leasehold.migration (version, name, serves_from) values ($1, $2, $3)'

// Before the first row: a day that has rows in the default partition can get no partition of its own.
export const PREPARE_TABLES =
  'select leasehold.make_partitions(14), leasehold.reserve_pages(), leasehold.raise_job_id()'
