import { renderNames } from '../db/identifier.ts'
import type { Definition } from './definition.ts'

const COLUMNS = `
alter table {table}
  add column if not exists {claim_token} uuid,
  add column if not exists {claimed_at} timestamptz,
  add column if not exists {attempt_count} integer not null default 0,
  add column if not exists {last_error} text,
  add column if not exists {retry_at} timestamptz,
  add column if not exists {sent_at} timestamptz not null default now();

-- A claim without a token or a time could neither be committed nor taken back.
alter table {table}
  drop constraint if exists {claim_constraint},
  add constraint {claim_constraint} check ({status} <> {claimed} or ({claim_token} is not null and {claimed_at} is not null));

-- What recovery looks for. Each holds only the rows it is about.
create index if not exists {stuck_index} on {table} ({claimed_at}) where {status} = {claimed};
create index if not exists {retry_index} on {table} ({retry_at}) where {status} = {failed};
create index if not exists {resend_index} on {table} ({sent_at}) where {status} = {ready};
`

const STATUSES = `
-- Not needed if the column is an enum.
alter table {table}
  drop constraint if exists {status_constraint},
  add constraint {status_constraint} check ({status} in ({statuses}));
`

/** For the user's own migration. Can be run again, after a change of statuses too. */
export function whatItNeeds(definition: Definition): string {
  const table = definition.table.split('.').at(-1)!
  // Constraints and indexes share a name space with tables, and are cut at 63 bytes.
  const named = (what: string) => `"${table.slice(0, 40)}_${what}"`
  const words = {
    ...definition.words,
    statuses: definition.statuses.map((status) => `'${status}'`).join(', '),
    status_constraint: named('status_known'),
    claim_constraint: named('claim_has_a_holder'),
    stuck_index: named('stuck'),
    retry_index: named('to_retry'),
    resend_index: named('to_resend'),
  }
  const parts = definition.phases === undefined ? [STATUSES] : [STATUSES, COLUMNS]
  return parts
    .map((part) => renderNames(part, words))
    .join('')
    .trimStart()
}
