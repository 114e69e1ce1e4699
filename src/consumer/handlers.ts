/** Handlers in front of Postgres. Each returns only when it knows what was committed (decisions/0023). */
import type { ClientBase } from 'pg'
import { checkFunction } from '../core/check.ts'
import {
  ConcurrentModificationError,
  EventConflictError,
  InvalidInputError,
  InvalidOptionError,
  LockTimeoutError,
  ValueNotStorableError,
} from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { Snooze } from '../core/steering.ts'
import type { Queryable } from '../db/lane.ts'
import type { Inbox } from '../inbox/inbox.ts'
import type { Arrows } from '../tables/definition.ts'
import { type FailOptions, isFinal, retryOf } from '../tables/failure.ts'
import type { Looked, Values } from '../tables/outcomes.ts'
import type { RowId } from '../tables/row-id.ts'
import type { StatusTable } from '../tables/status-table.ts'
import type { WorkClaim, Worked } from '../tables/work.ts'
import { ask, DatabaseAway } from './database-away.ts'
import type { Answer } from './disposition.ts'
import { checkCompare, checkFunctions, checkInbox, checkPool, checkTable } from './handler-options.ts'
import type { Message } from './held.ts'
import { askById, buryingPoison, isBadValue, keyOf, rowIdOf } from './poison.ts'

export type AnsweringHandle<Body> = (message: Message<Body>) => Promise<Answer>

export interface TwoPhases<Body, Column extends string> {
  readonly id: (message: Message<Body>) => RowId
  /** Returns the columns to set. */
  readonly effect: (message: Message<Body>, claim: WorkClaim) => Promise<Values<Column> | null | undefined>
}

/**
 * Claims the row, runs the effect with no connection held, and commits the columns that it returns: for effects that must
 * not happen twice. Its errors are recorded in the row. The table's recovery must run, with `publish`.
 */
export function inTwoPhases<Body, Column extends string>(
  table: StatusTable<Arrows, Column>,
  pool: Queryable,
  options: TwoPhases<Body, Column>,
): AnsweringHandle<Body> {
  checkTable('inTwoPhases', table)
  checkPool('inTwoPhases', pool)
  checkFunctions('inTwoPhases', options, ['id', 'effect'])
  if (table.phases === undefined) {
    throw new InvalidOptionError(
      'inTwoPhases.table',
      'its phases are false, so there is nothing to claim; declare phases',
    )
  }
  const { id, effect } = options
  return buryingPoison(async (message) => {
    const rowId = rowIdOf(message, id)
    // Not the message's own signal: another consumer that receives the message finds the row claimed, so the effect goes on.
    const { stopping } = message
    let isClaimed = false
    const noting = (claim: WorkClaim) => {
      isClaimed = true
      return effect(message, claim)
    }
    try {
      return unlessBusy(table, await ask(() => table.work(pool, rowId, noting, { stopping })))
    } catch (error) {
      // A trigger of the table can fail with the same code; a lookup shows whether the id is bad.
      if (!isClaimed && isBadValue(error)) await askById(() => table.status(pool, rowId))
      throw error
    }
  })
}

export interface OneUpdate<Body, From extends string, To extends string, Column extends string> {
  readonly id: (message: Message<Body>) => RowId
  readonly from: From
  readonly to: To
  /** Returns the columns to set. Runs twice when two deliveries overlap: only one of them changes the row. */
  readonly work: (message: Message<Body>) => Promise<Values<Column> | null | undefined>
}

/**
 * Checks that the row is ready, runs the work, then changes the row by one UPDATE. Errors of the work, and results that
 * cannot be stored, are recorded in the row. This works only from the table's ready status; from any other, the broker
 * redelivers the message instead.
 */
export function inOneUpdate<Body, A extends Arrows, From extends keyof A & string, Column extends string>(
  table: StatusTable<A, Column>,
  pool: Queryable,
  options: OneUpdate<Body, From, A[From][number], Column>,
): AnsweringHandle<Body> {
  checkTable('inOneUpdate', table)
  checkPool('inOneUpdate', pool)
  checkFunctions('inOneUpdate', options, ['id', 'work'], [], ['from', 'to'])
  const { id, from, to, work } = options
  table.checkArrow(from, to)
  const canRecord = table.phases?.ready === from
  const record = async (rowId: RowId, error: unknown, retry: FailOptions): Promise<Answer> => {
    if (!canRecord) throw error
    const recorded = await ask(() => table.fail(pool, rowId, error, retry))
    if (recorded.outcome !== 'applied') return unlessBusy(table, recorded)
    return { outcome: 'failed', error, givenUp: recorded.givenUp }
  }
  return buryingPoison(async (message) => {
    const rowId = rowIdOf(message, id)
    const looked = await askById(() => table.look(pool, rowId, from))
    if (looked.outcome !== 'ready') return unlessBusy(table, looked)
    let set: Values<Column> | null | undefined
    try {
      set = await work(message)
    } catch (error) {
      if (message.signal.aborted) throw error // Not the row's failure, and another consumer may have the message.
      if (error instanceof Snooze) return { outcome: 'again', after: error.delayMs }
      if (error instanceof ConcurrentModificationError) return { outcome: 'concurrent_modification', error }
      return record(rowId, error, retryOf(error))
    }
    try {
      const answer = unlessBusy(table, await ask(() => table.transition(pool, rowId, from, to, set ?? {})))
      // The work was done, and another delivery was faster.
      return answer.outcome === 'already_handled' ? { ...answer, paid: true } : answer
    } catch (error) {
      if (error instanceof DatabaseAway || !isFinal(error)) throw error
      return record(rowId, error, { retry: false }) // A retry would fail the same way.
    }
  })
}

function unlessBusy(table: StatusTable<Arrows, never>, answer: Worked | Looked): Answer {
  const isClaimed = answer.outcome === 'already_handled' && answer.status === table.phases?.claimed
  return isClaimed ? { outcome: 'busy' } : (answer as Answer)
}

export interface MessageKey<Body> {
  /** The event's id: what makes two messages the same. Default: the broker's id, which is new when a producer sends again. */
  readonly key?: (message: Message<Body>) => string
  /**
   * Whether a second message with the same id must have the same body, or what to compare instead. One that differs is a dead
   * letter. Default: true.
   */
  readonly compare?: boolean | ((message: Message<Body>) => string | Uint8Array | undefined)
}

/**
 * Runs the work in a transaction that also records the message in the inbox: for counters, and work without a status row. If it
 * throws, the transaction rolls back, and the broker redelivers the message.
 */
export function inOneTransaction<Body>(
  inbox: Inbox,
  work: (tx: ClientBase, message: Message<Body>) => Promise<unknown> | unknown,
  options: MessageKey<Body> = {},
): AnsweringHandle<Body> {
  checkInbox('inOneTransaction', inbox)
  checkFunction('inOneTransaction.work', work)
  checkFunctions('inOneTransaction', options, [], ['key'], ['compare'])
  checkCompare('inOneTransaction', options.compare)
  return buryingPoison((message) => receive(inbox, message, options, (tx) => work(tx, message)))
}

/** Enqueues the body as a job of this kind, once per message: the job and the inbox's record of the message commit together. */
export function intoQueue<Body>(
  inbox: Inbox,
  kind: Kind<Body, unknown>,
  options: MessageKey<Body> = {},
): AnsweringHandle<Body> {
  checkFunctions('intoQueue', options, [], ['key'], ['compare'])
  return intoQueues<Body>(inbox, { ...options, kinds: [kind], kindOf: () => kind.name })
}

export interface IntoQueues<Body> extends MessageKey<Body> {
  readonly kinds: readonly Kind[]
  /** The kind of a message: a field of the body, or a function that returns the name. */
  readonly kindOf: string | ((message: Message<Body>) => unknown)
  /** The job's input. Default: the body. */
  readonly input?: (message: Message<Body>) => unknown
}

/** The same for several kinds. A message of another kind becomes a dead letter: `unknown_kind`. */
export function intoQueues<Body>(inbox: Inbox, options: IntoQueues<Body>): AnsweringHandle<Body> {
  checkInbox('intoQueues', inbox)
  checkFunctions('intoQueues', options, [], ['input', 'key'], ['kinds', 'kindOf', 'compare'])
  checkCompare('intoQueues', options.compare)
  const { kindOf } = options
  if (typeof kindOf !== 'function' && (typeof kindOf !== 'string' || kindOf === '')) {
    throw new InvalidOptionError('intoQueues.kindOf', 'it must be the name of a field of the body, or a function')
  }
  const list = Array.isArray(options.kinds) ? (options.kinds as readonly Kind[]) : []
  const kinds = new Map(list.map((kind) => [kind?.name, kind]))
  if (kinds.size === 0 || kinds.has(undefined as never)) {
    throw new InvalidOptionError('kinds', "declare them with kind('name', { … })")
  }
  return buryingPoison(async (message) => {
    const kind = kinds.get(nameOf(message, kindOf) as string)
    if (kind === undefined) return { outcome: 'dead_letter', reason: 'unknown_kind' }
    const input = options.input === undefined ? message.body : options.input(message)
    const partition = message.groupId === undefined ? {} : { partitionKey: message.groupId }
    let bad: unknown
    const enqueue = async (tx: ClientBase) => {
      try {
        await ask(() => inbox.leasehold.enqueue(kind, input as never, { tx, ...partition }))
      } catch (error) {
        if (error instanceof InvalidInputError || error instanceof ValueNotStorableError) bad = error
        throw error
      }
    }
    try {
      return await receive(inbox, message, options, enqueue)
    } catch (error) {
      if (bad !== undefined && error === bad) return { outcome: 'dead_letter', reason: 'invalid_body', error }
      throw error
    }
  })
}

/** Handles a message through the inbox. Errors of the work are its own; all others are of our own statements. */
async function receive<Body>(
  inbox: Inbox,
  message: Message<Body>,
  { key, compare = true }: MessageKey<Body>,
  work: (tx: ClientBase) => Promise<unknown> | unknown,
): Promise<Answer> {
  const eventId = keyOf(message, key)
  let theirs: { readonly error: unknown } | undefined
  const noting = async (tx: ClientBase) => {
    theirs = undefined
    try {
      return await work(tx)
    } catch (error) {
      theirs = { error }
      throw error
    }
  }
  try {
    const body = typeof compare === 'function' ? compare(message) : compare ? message.text : undefined
    const { outcome } = await inbox.once(eventId, noting, { body })
    return { outcome }
  } catch (error) {
    if (theirs?.error === error) throw error
    // Not `busy`, which would delete it: if the other delivery fails, this message is the only one left.
    if (error instanceof LockTimeoutError) return { outcome: 'in_progress' }
    if (error instanceof EventConflictError) return { outcome: 'dead_letter', reason: 'key_conflict', error }
    return ask(() => Promise.reject(error))
  }
}

function nameOf<Body>(message: Message<Body>, kindOf: IntoQueues<Body>['kindOf']): unknown {
  if (typeof kindOf === 'function') return kindOf(message)
  const { body } = message as Message<unknown>
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[kindOf] : undefined
}
