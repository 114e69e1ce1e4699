import type { Rewrite } from '../../common/rewrite.ts'
import type { PlanOptions } from '../plan.ts'

/** A bug, put into the database, the statements that processes send, or what the code of a workflow calls. */
export interface Plant extends PlanOptions {
  readonly what: string
  /** The rule that must detect it. */
  readonly breaks: RegExp
  /** Faults without which it does no harm. */
  readonly faults: NonNullable<PlanOptions['faults']>
  /** Run once in the database, by a superuser, before the processes start. */
  readonly sql?: string
  readonly rewrite?: readonly Rewrite[]
  /** A `run` that is wrong. */
  readonly run?: 'records before the work' | 'commits apart from the record' | 'undoes forwards' | 'ignores the winner'
}
