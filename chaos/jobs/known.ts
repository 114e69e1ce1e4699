/**
 * Known defects of the library that would hide later findings, each with the workaround of the harness. Set a fixed one to
 * false: then the rules check it.
 */

/**
 * A worker completes the last job of a claim, the completion is lost with a tail of the WAL, and the worker then closes the
 * claim at the new primary. The job there stays processing under a claim that the ledger no longer has, so no sweep finds
 * it. The harness puts the claim back.
 */
export const CLOSES_CLAIM_OF_LOST_COMPLETION = false

/** Each such claim again, expired: the next sweep takes its jobs. */
export const PUT_CLAIMS_BACK = `
  insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
  select claim_id, gen_random_uuid(), min(claimed_at), now(), array_agg(id)
  from leasehold.job j
  where claim_id is not null and claimed_at < now() - interval '6 s'
    and not exists (select from leasehold.claim c where c.id = j.claim_id)
  group by claim_id
  on conflict do nothing
  returning id::text, job_ids::text[] as jobs`
