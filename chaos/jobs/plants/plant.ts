import type { Rewrite } from '../../common/rewrite.ts'
import type { PlanOptions } from '../plan.ts'

/** A bug, put into the database or into the statements that processes send. */
export interface Plant extends PlanOptions {
  readonly what: string
  /** The rule that must detect it. */
  readonly breaks: RegExp
  /** Faults without which it does no harm. */
  readonly faults: NonNullable<PlanOptions['faults']>
  /** Run once, by a superuser, before the processes start. */
  readonly sql?: string
  /** Run again and again by a superuser. */
  readonly repeated?: string
  /** Statements that processes send, changed on their way: which one, what in it, by what. */
  readonly rewrite?: readonly Rewrite[]
  /** What a worker process does besides. */
  readonly leaks?: 'connections' | 'memory'
}
