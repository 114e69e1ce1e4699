import type { Pool } from 'pg'
import type { Log } from '../core/log.ts'
import type { Chore } from '../runtime/chore.ts'
import type { Handle, Reading } from './disposition.ts'

/** The options of a consumer, checked, and what its broker adds to them. */
export interface ConsumerSettings extends Reading {
  readonly handle: Handle<never>
  /** Messages held at a time. */
  readonly concurrency: number
  readonly visibilityMs: number
  /** A handler that takes longer is given up. */
  readonly timeoutMs: number
  /** How long a receive may last. */
  readonly receiveMs: number
  readonly graceMs: number
  readonly backoff: { readonly firstMs: number; readonly maxMs: number }
  readonly onGroupFailure: 'stop' | 'skip'
  readonly chores: readonly Chore[]
  readonly pool: Pool | undefined
  readonly signals: readonly NodeJS.Signals[]
  readonly log: Log
  /** The log wants all levels. */
  readonly logsAll: boolean
}
