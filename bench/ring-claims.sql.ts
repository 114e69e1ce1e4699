// Jobs in the lines of a queue on the ring. Leasehold's tables only.

//   $1 how many  $2 queue and kind  $3 their buckets, by turns
export const FILL_LINES = `-- bench.fill_lines
insert into leasehold.job (available_at, created_at, partition_bucket, line, partition_key, queue, kind, payload)
select leasehold.clock(), leasehold.clock(), b.bucket, b.bucket + 1, 'key:' || i, $2, $2,
  jsonb_build_object('orderId', i, 'customer', md5(i::text), 'template', 'receipt-v2', 'amountCents', i % 100000)
from (
  select i, ($3::smallint[])[1 + i % cardinality($3::smallint[])] as bucket from generate_series(1, $1::int) i
) as b`
