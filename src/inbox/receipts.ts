/** What an inbox knows about events that another database has sent: for reconciliation (outbox/reconcile.ts). Read-only. */
import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Lane } from '../db/lane.ts'
import { numericArray } from '../db/parameters.ts'
import { READ_RECEIPTS } from './inbox.sql.ts'

const MAX_EVENTS = 10_000
const TEXT_BYTES = 1_000

/** An event as its sender knows it. Its JSON is accepted as well. */
export interface SentEvent {
  readonly id: string
  /** The CloudEvents source. */
  readonly source: string
  /** By the sender's clock. */
  readonly publishedAt: Date | string
}

export type Receipt =
  | {
      readonly outcome: 'received'
      /** When the first copy was handled or became a job, by the receiver's clock. */
      readonly receivedAt: Date
      /** Further copies, which were dropped. */
      readonly duplicates: number
    }
  | { readonly outcome: 'not_received' }
  /** Published longer ago than ids are kept, so that it cannot be known. */
  | { readonly outcome: 'forgotten' }

/** One for each event, in their order. */
export async function readReceipts(
  lane: Lane,
  source: string,
  keepMs: number,
  events: readonly SentEvent[],
): Promise<Receipt[]> {
  if (!Array.isArray(events) || events.length > MAX_EVENTS) {
    throw new InvalidOptionError('events', `it must be a list of at most ${MAX_EVENTS} events`)
  }
  const checked = events.map((event, index) => checkEvent(`events[${index}]`, event))
  const rows = await lane.run<'received_ms' | 'duplicates' | 'is_past'>(READ_RECEIPTS, [
    source,
    checked.map(({ id }) => id),
    checked.map((event) => event.source),
    numericArray(checked.map(({ publishedMs }) => publishedMs)),
    keepMs,
  ])
  return rows.map(({ received_ms: receivedMs, duplicates, is_past: isPast }): Receipt => {
    if (receivedMs === null) return { outcome: isPast === 't' ? 'forgotten' : 'not_received' }
    return { outcome: 'received', receivedAt: new Date(Number(receivedMs)), duplicates: Number(duplicates) }
  })
}

function checkEvent(option: string, event: SentEvent): { id: string; source: string; publishedMs: number } {
  const { id, source, publishedAt } = event ?? {}
  const publishedMs =
    typeof publishedAt === 'string' ? Date.parse(publishedAt) : (publishedAt?.getTime?.() ?? Number.NaN)
  if (!Number.isFinite(publishedMs)) {
    throw new InvalidOptionError(`${option}.publishedAt`, 'it must be a Date, or a time such as 2026-11-18T09:30:00Z')
  }
  return {
    id: checkText(`${option}.id`, id, TEXT_BYTES),
    source: checkText(`${option}.source`, source, TEXT_BYTES),
    publishedMs,
  }
}
