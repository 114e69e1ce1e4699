/** What is answered about a row. */
import type { RowId } from './row-id.ts'

/**
 * applied: by this call. already handled: by another one, and the row has this status now. not ready: the row has a status
 * that comes before the one it is to leave, or one that is not declared. not found: not there, or not yet.
 */
export type TransitionOutcome =
  | { readonly outcome: 'applied' }
  | { readonly outcome: 'already_handled' | 'not_ready'; readonly status: string }
  | { readonly outcome: 'not_found' }

export type Looked = { readonly outcome: 'ready' } | Instead<TransitionOutcome>

/** lost: the row was taken back, and is somebody else's by now or will be. */
export type ClaimOutcome =
  | { readonly outcome: 'applied' }
  | { readonly outcome: 'lost'; readonly status: string }
  | { readonly outcome: 'not_found' }

/** givenUp: no attempt is left, or none was wanted. It stays in error until a person does something. */
export interface FailRecorded {
  readonly outcome: 'applied'
  readonly givenUp: boolean
}

/** What is answered where it was not applied. */
export type Instead<Outcome> = Exclude<Outcome, { outcome: 'applied' }>

/** What commit, fail and renew need to know. It can be stored and sent elsewhere. */
export interface RowClaim {
  readonly id: RowId
  readonly token: string
}

export type Claimed = { readonly outcome: 'applied'; readonly claim: RowClaim } | Instead<TransitionOutcome>

export type Values<Column extends string> = { readonly [C in Column]?: unknown }
