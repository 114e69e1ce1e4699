// The keys of a claim from the beginning of a fair queue.
//   $1 claim id  $2 worker id  $3 limit
export const CLAIM_KEYS = `-- bench.claim_keys
select partition_key from leasehold.claim($1, $2, 60000, $3, array['fair'], array['fair'], run_length => 1)
where id is not null`
