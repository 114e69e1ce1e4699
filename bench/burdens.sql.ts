// What lies beside the jobs that are drained, in Leasehold's tables.

// Finished jobs that are still kept.
//   $1 how many
export const FILL_ARCHIVE = `-- bench.fill_archive
insert into leasehold.archive (id, finished_at, available_at, created_at, lease_generation, claim_id, claimed_at, claimed_by,
  status, attempts, max_attempts, priority, partition_bucket, queue, kind, payload)
select 1000000000 + i, leasehold.clock(), leasehold.clock(), leasehold.clock(), 1, 1, leasehold.clock(), gen_random_uuid(),
  'completed', 1, 5, 5, i % 1024, 'bench', 'bench',
  jsonb_build_object('orderId', i, 'customer', md5(i::text), 'template', 'receipt-v2', 'amountCents', i % 100000)
from generate_series(1, $1::int) i`

// What a snapshot must see for the server to keep it.
export const HOLD_SNAPSHOT = `-- bench.hold_snapshot
select count(*) from pg_class`

// What a commit costs by itself.
export const ONE_ROW = `-- bench.one_row
create table one_row with (fillfactor = 50) as select 0::bigint as value`

export const UPDATE_ONE_ROW = `-- bench.update_one_row
update one_row set value = value + 1`

// Two gigabytes of the log, which a checkpoint then leaves to be written again (min_wal_size).
export const FILL_LOG = `-- bench.fill_log
select count(pg_logical_emit_message(false, 'bench', repeat('x', 1048576))) from generate_series(1, 2048)`
