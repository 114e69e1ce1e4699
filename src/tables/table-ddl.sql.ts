// The columns that a table needs, for the user's own migration; the words in braces as in row.sql.ts.

export const COLUMNS = `-- row.columns
alter table {table}
  add column if not exists {claim_token} uuid,
  add column if not exists {claim_expires_at} timestamptz,
  add column if not exists {attempt_count} integer,
  add column if not exists {last_error} text,
  add column if not exists {retry_at} timestamptz,
  add column if not exists {sent_at} timestamptz;

-- Rows that were never counted or claimed. A null would be neither less nor more than any number.
update {table} set {attempt_count} = coalesce({attempt_count}, 0), {sent_at} = coalesce({sent_at}, now())
  where {attempt_count} is null or {sent_at} is null;
update {table} set {claim_token} = gen_random_uuid(), {claim_expires_at} = now() + {lease}
  where {status} = {claimed} and ({claim_token} is null or {claim_expires_at} is null);
alter table {table}
  alter column {attempt_count} set default 0, alter column {attempt_count} set not null,
  alter column {sent_at} set default now(), alter column {sent_at} set not null,
  drop constraint if exists {claim_constraint},
  add constraint {claim_constraint}
    check ({status} <> {claimed} or ({claim_token} is not null and {claim_expires_at} is not null));

-- What recovery looks for. Each holds only the rows it is about. On a large table: create index concurrently.
create index if not exists {stuck_index} on {table} ({claim_expires_at}) where {status} = {claimed};
create index if not exists {retry_index} on {table} ({retry_at}) where {status} = {failed};
create index if not exists {resend_index} on {table} ({sent_at}) where {status} = {ready};
`

export const STATUSES = `-- row.statuses
-- Not needed if the column is an enum.
alter table {table}
  drop constraint if exists {status_constraint},
  add constraint {status_constraint} check ({status} in ({statuses}));
`
