/**
 * Compares the events that were published for a destination with those that its receiver has.
 *
 *   events, a page at a time ─► received(page) ─► delays, duplicates
 *                                     └─ those without a receipt ─► unsent, dead letter, cancelled, in flight, or missing
 *
 * Sender and receiver are two databases, so no snapshot covers both, and the report must not call an event missing that is merely on
 * its way. The argument:
 *
 * - A page is read at `readAt`, by the sender's clock. The receiver is asked after that, and the sender's jobs are read after the
 *   receiver has answered. So an event that was completed before `readAt − within` was acknowledged by the broker at least `within`
 *   before the receiver was asked. Only such an event is missing.
 * - A job is in exactly one of `job`, `dead_letter` and `archive`, and never leaves the archive for another table. The unfinished
 *   jobs are read before the archive: an event that moves in between is found in the archive, and was completed after `readAt`.
 * - An event that is missing now can arrive later, as a broker may hold it for days. Then the next report does not have it.
 *
 * Memory: a page, the events without a receipt up to UNCERTAIN of them, and the first LISTED that are missing.
 */
import { checkDate, checkFunction, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Lane } from '../db/lane.ts'
import type { Receipt, SentEvent } from '../inbox/receipts.ts'
import { DelayHistogram, type Delays } from './delays.ts'
import type { Destination } from './destination.ts'
import { READ_DESTINATIONS } from './outbox.sql.ts'
import { READ_PUBLISHED, READ_SENT, READ_UNSENT } from './reconcile.sql.ts'

const PAGE = 1_000
/** Events without a receipt that are looked up at once. Each look reads the jobs of the destination. */
const UNCERTAIN = 20_000
const LISTED = 1_000

/** As an Inbox returns it, or as JSON from another service. */
export type ReceiptOrJson =
  | Receipt
  | (Omit<Extract<Receipt, { outcome: 'received' }>, 'receivedAt'> & { receivedAt: string })

export interface ReconcileOptions {
  readonly destination: Destination | string
  /** Published at this moment or later. */
  readonly from: Date
  /** Published before. Default: now. */
  readonly to?: Date
  /** Asks the receiver about up to 1,000 events: one receipt for each, in their order. `inbox.receipts` answers it. */
  readonly received: (events: readonly SentEvent[]) => Promise<readonly ReceiptOrJson[]> | readonly ReceiptOrJson[]
  /** How long a sent event may take to arrive before it is missing. Default: 5m. */
  readonly within?: Duration
}

export interface MissingEvent {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly key: string | undefined
  readonly publishedAt: Date
  /** When its acknowledgement was recorded. */
  readonly sentAt: Date
}

/** `events` is the sum of received, missing, inFlight, unsent, deadLetters, cancelled, forgotten and unrecorded. */
export interface Reconciliation {
  readonly destination: string
  /** Events of the range that the destination takes. */
  readonly events: number
  readonly received: number
  /** Copies that the receiver dropped. */
  readonly duplicates: number
  /** Of all copies that arrived, the part that were duplicates: 0 to 1. */
  readonly duplicateRate: number
  /** From publish to receipt, each by its own database's clock. Undefined: none was received. */
  readonly delay: Delays | undefined
  /** Sent more than `within` ago, and not received. */
  readonly missing: number
  /** The first 1,000 of them. */
  readonly missingEvents: readonly MissingEvent[]
  /** Sent less than `within` ago, and not received yet. */
  readonly inFlight: number
  readonly unsent: number
  readonly deadLetters: number
  readonly cancelled: number
  /** Published longer ago than the receiver keeps ids. */
  readonly forgotten: number
  /** Not received, and no record of sending: published before the destination was configured, or past its `keep`. */
  readonly unrecorded: number
}

interface Published {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly key: string | undefined
  readonly publishedMs: number
  /** When its page was read. */
  readonly readMs: number
}

type Without = 'missing' | 'inFlight' | 'unsent' | 'deadLetters' | 'cancelled' | 'forgotten' | 'unrecorded'

export async function reconcile(lane: Lane, options: ReconcileOptions): Promise<Reconciliation> {
  checkOptions('reconcile', options ?? null, ['destination', 'from', 'to', 'received', 'within'])
  const given = typeof options.destination === 'string' ? options.destination : options.destination?.name
  const name = checkText('reconcile.destination', given, 100)
  const since = checkDate('reconcile.from', options.from)
  let until = options.to === undefined ? null : checkDate('reconcile.to', options.to)
  const received = checkFunction('reconcile.received', options.received)
  const report = new Report(lane, name, durationMs('reconcile.within', options.within ?? '5m'))
  if ((await lane.run(READ_DESTINATIONS, [[name]])).length === 0) {
    const what = `there is no destination ${JSON.stringify(name)}; outbox.configure() it first`
    throw new InvalidOptionError('reconcile.destination', what)
  }
  for (let after = '0', looked = PAGE; looked === PAGE; ) {
    const rows: readonly PublishedRow[] = await lane.run(READ_PUBLISHED, [name, since, until, after, PAGE])
    looked = rows.length
    const events = rows.filter(({ takes }) => takes === 't').map(publishedOf)
    if (events.length > 0) await report.add(events, await ask(received, events))
    // The moment of the first page counts for all of them.
    until = rows[0]?.until ?? until
    after = rows.at(-1)?.place ?? after
  }
  return report.end()
}

class Report {
  readonly #lane: Lane
  readonly #destination: string
  readonly #withinMs: number
  readonly #delays = new DelayHistogram()
  readonly #without = { missing: 0, inFlight: 0, unsent: 0, deadLetters: 0, cancelled: 0, forgotten: 0, unrecorded: 0 }
  readonly #missingEvents: MissingEvent[] = []
  #uncertain: Published[] = []
  #events = 0
  #received = 0
  #duplicates = 0

  constructor(lane: Lane, destination: string, withinMs: number) {
    this.#lane = lane
    this.#destination = destination
    this.#withinMs = withinMs
  }

  async add(events: readonly Published[], receipts: readonly ReceiptOrJson[]): Promise<void> {
    this.#events += events.length
    for (const [index, event] of events.entries()) {
      const receipt = checkReceipt(receipts[index], index)
      if (receipt.outcome === 'forgotten') this.#without.forgotten++
      else if (receipt.outcome === 'not_received') this.#uncertain.push(event)
      else {
        this.#received++
        this.#duplicates += receipt.duplicates
        this.#delays.add(receipt.receivedMs - event.publishedMs)
      }
    }
    if (this.#uncertain.length >= UNCERTAIN) await this.#settle()
  }

  async end(): Promise<Reconciliation> {
    await this.#settle()
    const [received, duplicates] = [this.#received, this.#duplicates]
    return {
      destination: this.#destination,
      events: this.#events,
      received,
      duplicates,
      duplicateRate: received === 0 ? 0 : duplicates / (received + duplicates),
      delay: this.#delays.summary(),
      ...this.#without,
      missingEvents: this.#missingEvents,
    }
  }

  /** Decides about the events without a receipt. */
  async #settle(): Promise<void> {
    const waiting = await this.#unsent(this.#uncertain)
    const left: Published[] = []
    for (const event of this.#uncertain) {
      const waits = waiting.get(event.id)
      if (waits === undefined) left.push(event)
      else this.#without[waits ? 'unsent' : 'deadLetters']++
    }
    // Whenever these were sent, it was less than `within` ago, so the archive need not be read for them.
    const isRecent = ({ publishedMs, readMs }: Published) => publishedMs > readMs - this.#withinMs
    const old = left.filter((event) => !isRecent(event))
    this.#without.inFlight += left.length - old.length
    const sent = await this.#sent(old)
    for (const event of old) this.#count(event, sent.get(event.id))
    this.#uncertain = []
  }

  #count(event: Published, sent: Sent | undefined): void {
    const state = this.#stateOf(event, sent)
    this.#without[state]++
    if (state !== 'missing' || this.#missingEvents.length === LISTED) return
    const { id, source, type, key, publishedMs } = event
    const sentAt = new Date(sent!.sentMs!)
    this.#missingEvents.push({ id, source, type, key, publishedAt: new Date(publishedMs), sentAt })
  }

  #stateOf({ readMs }: Published, sent: Sent | undefined): Without {
    if (sent === undefined) return 'unrecorded'
    if (sent.sentMs === undefined) return 'cancelled'
    return sent.sentMs > readMs - this.#withinMs ? 'inFlight' : 'missing'
  }

  /** True: it waits. False: it is a dead letter, and does not wait as well, as a replay of it would. */
  async #unsent(events: readonly Published[]): Promise<Map<string, boolean>> {
    if (events.length === 0) return new Map()
    const rows = await this.#lane.run<'id' | 'waits'>(READ_UNSENT, [this.#destination, idsOf(events)])
    const found = new Map<string, boolean>()
    for (const { id, waits } of rows) found.set(id!, waits === 't' || found.get(id!) === true)
    return found
  }

  async #sent(events: readonly Published[]): Promise<Map<string, Sent>> {
    if (events.length === 0) return new Map()
    const oldest = events.reduce((least, { publishedMs }) => Math.min(least, publishedMs), Number.POSITIVE_INFINITY)
    const values = [this.#destination, idsOf(events), oldest]
    const rows = await this.#lane.run<'id' | 'status' | 'finished_ms'>(READ_SENT, values)
    const found = new Map<string, Sent>()
    for (const row of rows) {
      const [known, finishedMs] = [found.get(row.id!)?.sentMs, Number(row.finished_ms)]
      const sentMs = row.status === 'completed' ? Math.max(finishedMs, known ?? 0) : known
      found.set(row.id!, { sentMs })
    }
    return found
  }
}

interface Sent {
  /** The last time. Undefined: it was cancelled. */
  readonly sentMs: number | undefined
}

type PublishedRow = Readonly<
  Record<'id' | 'source' | 'type' | 'key' | 'place' | 'published_ms' | 'read_ms' | 'until' | 'takes', string | null>
>

function publishedOf({ id, source, type, key, published_ms, read_ms }: PublishedRow): Published {
  const [publishedMs, readMs] = [Number(published_ms), Number(read_ms)]
  return { id: id!, source: source!, type: type!, key: key ?? undefined, publishedMs, readMs }
}

function idsOf(events: readonly Published[]): string[] {
  return events.map(({ id }) => id)
}

async function ask(received: ReconcileOptions['received'], events: readonly Published[]) {
  const asked = events.map(({ id, source, publishedMs }) => ({ id, source, publishedAt: new Date(publishedMs) }))
  const receipts = await received(asked)
  if (Array.isArray(receipts) && receipts.length === events.length) return receipts
  const what = `it was asked about ${events.length} events, and must return as many receipts, in their order`
  throw new InvalidOptionError('reconcile.received', what)
}

function checkReceipt(
  receipt: ReceiptOrJson | undefined,
  index: number,
):
  | { outcome: 'not_received' }
  | { outcome: 'forgotten' }
  | { outcome: 'received'; receivedMs: number; duplicates: number } {
  const { outcome } = receipt ?? {}
  if (outcome === 'not_received' || outcome === 'forgotten') return { outcome }
  const { receivedAt, duplicates } = (receipt ?? {}) as { receivedAt?: Date | string; duplicates?: unknown }
  const receivedMs = new Date(receivedAt ?? Number.NaN).getTime()
  if (outcome === 'received' && Number.isFinite(receivedMs) && Number.isInteger(duplicates)) {
    return { outcome, receivedMs, duplicates: duplicates as number }
  }
  const what = `receipt ${index} must be { outcome: 'received', receivedAt, duplicates }, or have the outcome 'not_received' or 'forgotten'`
  throw new InvalidOptionError('reconcile.received', what)
}
