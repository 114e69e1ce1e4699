import { renderNames } from '../db/identifier.ts'
import type { Definition } from './definition.ts'
import { COLUMNS, STATUSES } from './table-ddl.sql.ts'

/** For the user's own migration. Can be run again, after a change of statuses too. */
export function whatItNeeds(definition: Definition): string {
  const table = definition.table.split('.').at(-1)!
  // Constraints and indexes share a name space with tables, and are cut at 63 bytes.
  const named = (what: string) => `"${table.slice(0, 40)}_${what}"`
  const words = {
    ...definition.words,
    lease: `interval '${definition.stuckAfterMs} ms'`,
    statuses: definition.statuses.map((status) => `'${status}'`).join(', '),
    status_constraint: named('status_known'),
    claim_constraint: named('claim_has_a_holder'),
    stuck_index: named('stuck'),
    retry_index: named('to_retry'),
    resend_index: named('to_resend'),
  }
  const parts = definition.phases === undefined ? [STATUSES] : [STATUSES, COLUMNS]
  return parts.map((part) => renderNames(part, words).replace(/^-- \S+\n/, '')).join('\n')
}
