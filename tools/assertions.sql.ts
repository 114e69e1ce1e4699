// What is always true of a row. The template of the test databases and `chaos:jobs` have these checks. A production database does
// not: Postgres parses a check anew in each statement that writes the table, which took a tenth of a turn of one job (decisions/0033).
export const ASSERTIONS = `
alter table leasehold.job
  add constraint processing_knows_its_claim check ((claim_id is null) = (claimed_at is null)),
  add constraint attempts_within_bounds check (attempts between 0 and max_attempts and lease_generation >= attempts),
  add constraint pending_has_an_attempt_left check (claim_id is not null or attempts < max_attempts),
  add constraint priority_is_a_digit check (priority between 0 and 9),
  add constraint bucket_on_the_ring check (partition_bucket between 0 and 1023);
alter table leasehold.claim
  add constraint claim_holds_jobs check (cardinality(job_ids) > 0);
alter table leasehold.archive
  add constraint archive_holds_finished_jobs check (status in ('completed', 'cancelled')),
  add constraint completed_means_it_was_claimed check (
    status <> 'completed' or (claim_id is not null and lease_generation > 0))`
