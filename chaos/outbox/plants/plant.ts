import type { Rewrite } from '../../common/rewrite.ts'
import type { PlanOptions } from '../plan.ts'

/** A bug, put into the database, the statements that processes send, a relay or a consumer. */
export interface Plant extends PlanOptions {
  readonly what: string
  /** The rule that must detect it. */
  readonly breaks: RegExp
  /** Faults without which it does no harm. */
  readonly faults: NonNullable<PlanOptions['faults']>
  /** Run once in the publishing database, by a superuser, before the processes start. */
  readonly sql?: string
  /** Run again and again in the receiving database, by a superuser. */
  readonly repeated?: string
  readonly rewrite?: readonly Rewrite[]
  /** A transport that is wrong, or a handler that is. */
  readonly relay?: 'marks before the acknowledgement' | 'gives a new id to a resend' | 'takes a refusal for sent'
  readonly consumer?: 'acknowledges before the insert'
}
