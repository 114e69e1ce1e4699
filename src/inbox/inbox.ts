/**
 * The receiver's inbox: an event that a broker delivers at least once has its effect once.
 *
 * One row of leasehold.inbox for each (source, event id). It commits with the effect, or with the job that the event becomes, and the
 * message is acknowledged after that commit. So there is no state in between: both are there, or neither is, and then the
 * broker redelivers.
 *
 * Who waits for whom (decisions/0036): the insert is the lock. A second delivery of an event that is being handled waits in its own
 * insert for the first transaction to end. After a commit it finds the row, after a rollback it inserts its own. A process that dies
 * loses its connection, and Postgres rolls its transaction back. If the server cannot see that, because the host is gone, the
 * second delivery stops waiting after `wait`, and its message is redelivered later.
 */
import { createHash } from 'node:crypto'
import type { ClientBase } from 'pg'
import { checkFunction, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { EventConflictError, InvalidOptionError, LockTimeoutError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { settlingConflicts } from '../db/conflict.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { withTransaction } from '../db/transaction.ts'
import type { Tx } from '../db/tx.ts'
import { inTurn } from '../db/tx-line.ts'
import { beInATransaction } from '../jobs/completion.ts'
import type { Enqueued } from '../jobs/enqueue.ts'
import { RECEIVE } from './inbox.sql.ts'
import { prunerOf } from './pruning.ts'
import { type Receipt, readReceipts, type SentEvent } from './receipts.ts'

const DAY_MS = 86_400_000
const SOURCE_BYTES = 200
const ID_BYTES = 1_000
/** Of one event, when Postgres aborts its transaction. */
const ATTEMPTS = 20
/** Two bodies of one id are compared, not bodies of all ids, so half of a SHA-256 is more than enough. */
const HASH_BYTES = 16

export interface InboxOptions {
  /** The queue, topic or webhook whose event ids are unique within it. Two receivers of the same events need two sources. */
  readonly source: string
  /** How long the transport may redeliver a message: its retention, since a message can wait that long. Default: 14d. */
  readonly redeliveredFor?: Duration
  /** How long an id is remembered; must be longer. Default: a day longer, for deliveries under way at the end. */
  readonly keep?: Duration
  /** How long a delivery waits for another one of the same event. Default: 5s. */
  readonly wait?: Duration
}

/** The part of Leasehold that is used here and by handlers that enqueue. */
export interface Enqueues {
  enqueue<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    input: NoInfer<Input>,
    options: { readonly tx: ClientBase; readonly partitionKey?: string },
  ): Promise<Enqueued<Result>>
}

export interface ReceiveOptions {
  /** The body as it was received. A later delivery of the id with another body is refused. Default: not compared. */
  readonly body?: string | Uint8Array | undefined
}

export type Received<T> = { readonly outcome: 'applied'; readonly result: T } | { readonly outcome: 'already_handled' }

export class Inbox {
  readonly leasehold: Enqueues
  readonly source: string
  readonly keepMs: number
  readonly #waitMs: number
  readonly #connection: Connection

  /** Throws if ids would be forgotten before the transport stops redelivering. */
  constructor(leasehold: Enqueues, options: InboxOptions) {
    this.#connection = connectionOf('Inbox.leasehold', leasehold)
    checkOptions('Inbox', options ?? null, ['source', 'redeliveredFor', 'keep', 'wait'])
    this.leasehold = leasehold
    this.source = checkText('Inbox.source', options.source, SOURCE_BYTES)
    const redeliveredForMs = durationMs('Inbox.redeliveredFor', options.redeliveredFor ?? '14d')
    this.keepMs = durationMs('Inbox.keep', options.keep ?? redeliveredForMs + DAY_MS)
    this.#waitMs = Math.ceil(durationMs('Inbox.wait', options.wait ?? '5s', 1))
    if (this.keepMs <= redeliveredForMs) {
      throw new InvalidOptionError('Inbox.keep', 'it must be longer than redeliveredFor, or a redelivery runs twice')
    }
  }

  /**
   * Runs the effect of an event in a transaction, once. Acknowledge the message when this resolves, and not before. To hand the event
   * to a job, enqueue in that transaction: `(tx) => leasehold.enqueue(kind, input, { tx })`.
   *
   * The transaction is retried when Postgres aborts it in favour of another, so do nothing in it that a rollback cannot undo. When the
   * reply to the commit is lost this throws; the next delivery gets the outcome. Throws LockTimeoutError if another delivery of the
   * event is handled for longer than `wait`, and EventConflictError if the id was received with another body.
   */
  async once<T>(
    eventId: string,
    effect: (tx: ClientBase) => Promise<T> | T,
    options: ReceiveOptions = {},
  ): Promise<Received<T>> {
    checkFunction('effect', effect)
    const event = this.#check(eventId, options)
    const { lane, pool } = this.#connection
    const work = async (tx: ClientBase): Promise<Received<T>> => {
      if (!(await this.#receive(lane.within(tx), event))) return { outcome: 'already_handled' }
      return { outcome: 'applied', result: await effect(tx) }
    }
    const received = await withTransaction(pool, work, { attempts: ATTEMPTS })
    prunerOf(this.#connection).afterReceive()
    return received
  }

  /**
   * Whether this event is new, in your open transaction: it counts as handled exactly when that commits. Waits for, and throws, as
   * once() does. After LockTimeoutError your transaction can only be rolled back.
   */
  async firstTime(tx: Tx, eventId: string, options: ReceiveOptions = {}): Promise<boolean> {
    const event = this.#check(eventId, options)
    const lane = this.#connection.lane.within(tx)
    return inTurn(tx, async () => {
      await beInATransaction(lane)
      return this.#receive(lane, event)
    })
  }

  /**
   * Which of these events were received, in their order: what a sender needs for `outbox.reconcile()`. At most 10,000 a call. An event
   * is found by its id, or by source and id, as `byEvent` stores it.
   */
  receipts(events: readonly SentEvent[]): Promise<Receipt[]> {
    return readReceipts(this.#connection.lane, this.source, this.keepMs, events)
  }

  #check(eventId: string, options: ReceiveOptions): NewEvent {
    checkOptions('receive', options, ['body'])
    const { body } = options
    if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array)) {
      throw new InvalidOptionError('receive.body', 'it must be the text or the bytes as they were received')
    }
    const hash = body === undefined ? null : `\\x${hashOf(body)}`
    return { id: checkText('eventId', eventId, ID_BYTES), hash }
  }

  async #receive(tx: Lane, { id, hash }: NewEvent): Promise<boolean> {
    const values = [this.source, id, hash, this.keepMs, this.#waitMs]
    const [row] = await settlingConflicts(tx.standsAlone, () => tx.run<'outcome'>(RECEIVE, values)).catch((error) => {
      if ((error as { code?: unknown } | null)?.code !== '55P03') throw error
      throw new LockTimeoutError(`Event ${id} of ${this.source}`, this.#waitMs, { cause: error })
    })
    if (row!.outcome === 'conflict') throw new EventConflictError(this.source, id)
    return row!.outcome === 'new'
  }
}

interface NewEvent {
  readonly id: string
  /** As Postgres reads bytea. */
  readonly hash: string | null
}

function hashOf(body: string | Uint8Array): string {
  return createHash('sha256')
    .update(body)
    .digest('hex')
    .slice(0, 2 * HASH_BYTES)
}
