// What the benchmark itself asks of the database.

export const PAYLOAD_AS_JSON = [
  `drop view leasehold.jobs cascade`,
  `alter table leasehold.job alter column payload type json`,
  `alter table leasehold.archive alter column payload type json`,
  // The claim as it ships, but for the type it returns.
  `do $$
  declare
    shipped oid := (select oid from pg_proc where pronamespace = 'leasehold'::regnamespace and proname = 'claim');
    definition text := pg_get_functiondef(shipped);
  begin
    if definition not like '%payload jsonb%' then
      raise exception 'leasehold.claim no longer returns its payload as jsonb';
    end if;
    execute format('drop function %s', shipped::regprocedure);
    execute replace(definition, 'payload jsonb', 'payload json');
  end
  $$`,
]

export const COUNT_LEASEHOLD = `-- bench.count
select (select count(*) from leasehold.job) as unfinished,
  (select count(distinct id) from leasehold.archive where status = 'completed') as finished`

// Many jobs at once, without the way through a client.
//   $1 how many  $2 kind  $3 seconds until they are due
export const FILL = `-- bench.fill
insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
select leasehold.clock() + $3 * interval '1 s', leasehold.clock(), i % 1024, 'bench', $2,
  jsonb_build_object('orderId', i, 'customer', md5(i::text), 'template', 'receipt-v2', 'amountCents', i % 100000)
from generate_series(1, $1::int) i`

// Both positions of the log: what is written into it, and what is already on disk and can be read back.
export const WAL_POSITION = `-- bench.wal_position
select pg_current_wal_insert_lsn() as written, pg_current_wal_flush_lsn() as flushed`

//   $1 from  $2 to
export const WAL_BYTES = `-- bench.wal_bytes
select pg_wal_lsn_diff($2, $1) as bytes`

// Whole pages written into the log, once for each page and checkpoint.
//   $1 from  $2 to
export const WAL_IMAGE_BYTES = `-- bench.wal_image_bytes
select coalesce(sum(fpi_size), 0) as bytes from pg_get_wal_stats($1, $2)`

//   $1 table
export const UPDATES = `-- bench.updates
select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = $1::regclass`
