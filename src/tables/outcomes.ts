/** Outcomes of operations on a row. */
import type { RowId } from './row-id.ts'

/**
 * applied: by this call. already_handled: by another call, and the row has this status now. not_ready: the row has a status
 * before the one it is to leave, or one that is not declared. not_found: missing, or not committed yet.
 */
export type TransitionOutcome =
  | { readonly outcome: 'applied' }
  | { readonly outcome: 'already_handled' | 'not_ready'; readonly status: string }
  | { readonly outcome: 'not_found' }

export type Looked = { readonly outcome: 'ready' } | Instead<TransitionOutcome>

/** lost: the row was reclaimed, and another worker holds it or will. */
export type ClaimOutcome =
  | { readonly outcome: 'applied' }
  | { readonly outcome: 'lost'; readonly status: string }
  | { readonly outcome: 'not_found' }

/** givenUp: no attempt is left, or no retry was wanted. The row stays in error until an operator acts. */
export interface FailRecorded {
  readonly outcome: 'applied'
  readonly givenUp: boolean
}

/** The outcome if it was not applied. */
export type Instead<Outcome> = Exclude<Outcome, { outcome: 'applied' }>

/** The input of commit, fail and renew. It can be stored and sent to another process. */
export interface RowClaim {
  readonly id: RowId
  readonly token: string
}

export type Claimed = { readonly outcome: 'applied'; readonly claim: RowClaim } | Instead<TransitionOutcome>

export type Values<Column extends string> = { readonly [C in Column]?: unknown }
