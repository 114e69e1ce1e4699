/** Decides the disposition of a message from its body and its handler's result or error. */
import { type Duration, durationMs } from '../core/duration.ts'
import { ConcurrentModificationError, InvalidInputError } from '../core/errors.ts'
import { parseInput, type Schema } from '../core/schema.ts'
import { Cancel, Fatal, RetryAfter, Snooze } from '../core/steering.ts'
import { isPostgresError } from '../db/outage.ts'
import { DatabaseAway } from './database-away.ts'
import { type AnyAttributes, HandedMessage, type HeldMessage, type Message } from './held.ts'

/** Why a message can never be handled. A handler may use any other text. */
export type DeadReason = 'not_json' | 'invalid_body' | 'unknown_kind' | 'key_conflict' | 'fatal' | (string & {})

/** Why a message is returned. in_progress: another delivery of it is being handled. requested: by its handler. group_stopped: it was behind a message that was not deleted. */
export type ReturnReason =
  | 'row_not_found'
  | 'row_not_ready'
  | 'row_busy'
  | 'in_progress'
  | 'database'
  | 'threw'
  | 'requested'
  | 'stopping'
  | 'group_stopped'
  | 'dead_letter_not_sent'

/**
 * The result of a handler. The words are those of transitions, of messages and of enqueue, so their results can be returned
 * unchanged. undefined, or an object without an outcome, means applied.
 */
export type Answer =
  | { readonly outcome: 'applied' | 'created' | 'existing' | 'lost' }
  /** `paid`: this delivery did its work before it found the duplicate. */
  | { readonly outcome: 'already_handled'; readonly paid?: boolean }
  /** A write guard found that another writer came first. */
  | { readonly outcome: 'concurrent_modification'; readonly error: unknown }
  | { readonly outcome: 'not_found' | 'conflict' }
  | { readonly outcome: 'not_ready'; readonly status?: string }
  | { readonly outcome: 'released'; readonly delayMs?: number }
  /** Another worker is handling the row. The message can be deleted, except on a FIFO queue, for its order. */
  | { readonly outcome: 'busy' }
  /** Another delivery of the same event is being handled. If that fails, this message is still there. */
  | { readonly outcome: 'in_progress' }
  | { readonly outcome: 'failed'; readonly error: unknown; readonly givenUp?: boolean }
  | { readonly outcome: 'dead_letter'; readonly reason: DeadReason; readonly error?: unknown }
  | { readonly outcome: 'again'; readonly after?: Duration }

/** A value without an outcome means done. */
type Answered = Answer | (object & { readonly outcome?: never }) | string | number | bigint | boolean | null | undefined

/** Handles a message. If it throws, the broker redelivers the message. */
export type Handle<Body = unknown, Attributes = AnyAttributes> = (
  message: Message<Body, Attributes>,
  // biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing
) => Answered | void | Promise<Answered | void>

export type Disposition =
  | { readonly end: 'delete'; readonly as: 'handled' }
  | { readonly end: 'delete'; readonly as: 'already_handled'; readonly paid: boolean }
  | { readonly end: 'delete'; readonly as: 'concurrent_modification'; readonly error: unknown }
  | { readonly end: 'delete'; readonly as: 'failed'; readonly error: unknown; readonly givenUp: boolean }
  | { readonly end: 'dead_letter'; readonly reason: DeadReason; readonly error?: unknown }
  | {
      readonly end: 'return'
      readonly reason: ReturnReason
      readonly delayMs?: number
      readonly error?: unknown
      /** Text for the log. */
      readonly note?: string
    }

export interface Reading {
  /** Messages of a group are handled one after another. */
  readonly isGrouped: boolean
  readonly body: Schema | 'text' | 'json'
}

/** Never rejects. */
export async function dispositionOf(held: HeldMessage, reading: Reading, handle: Handle<never>): Promise<Disposition> {
  let body: unknown
  try {
    const read = await readBody(held.delivery.text, reading)
    if ('end' in read) return read
    body = read.body
  } catch (error) {
    return thrown(held, error) // A schema that queries something may succeed later.
  }
  try {
    return judge(held, (await handle(new HandedMessage(held, body as never))) as Answer | undefined, reading.isGrouped)
  } catch (error) {
    try {
      return thrown(held, error)
    } catch {
      return { end: 'return', reason: 'threw', error } // A proxy can throw when it is inspected.
    }
  }
}

async function readBody(text: string, { body }: Reading): Promise<{ body: unknown } | Disposition> {
  if (body === 'text') return { body: text }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { end: 'dead_letter', reason: 'not_json' } // Without the error, which quotes the body.
  }
  if (body === 'json') return { body: value }
  try {
    return { body: await parseInput('the message', body, value) }
  } catch (error) {
    if (error instanceof InvalidInputError) return { end: 'dead_letter', reason: 'invalid_body', error }
    throw error
  }
}

function judge(held: HeldMessage, answer: Answer | undefined, isGrouped: boolean): Disposition {
  switch (answer?.outcome) {
    case undefined:
      // It returned after the abort, complete or not: unknown. A duplicate delivery is the lesser harm.
      if (answer === undefined && held.isStopped) return { end: 'return', reason: 'stopping', delayMs: 0 }
      return { end: 'delete', as: 'handled' }
    case 'applied':
    case 'created':
      return { end: 'delete', as: 'handled' }
    case 'already_handled':
      return { end: 'delete', as: 'already_handled', paid: answer.paid === true }
    case 'existing':
      return { end: 'delete', as: 'already_handled', paid: false }
    case 'lost': // The row was reclaimed while the effect ran; recovery re-publishes it.
      return { end: 'delete', as: 'already_handled', paid: true }
    case 'concurrent_modification':
      return { end: 'delete', as: 'concurrent_modification', error: answer.error }
    case 'busy': // If it were deleted, the next message of its group would start.
      return isGrouped ? { end: 'return', reason: 'row_busy' } : { end: 'delete', as: 'already_handled', paid: false }
    case 'in_progress':
      return { end: 'return', reason: 'in_progress' }
    case 'failed':
      return { end: 'delete', as: 'failed', error: answer.error, givenUp: answer.givenUp === true }
    case 'not_found':
      return { end: 'return', reason: 'row_not_found' }
    case 'not_ready':
      return {
        end: 'return',
        reason: 'row_not_ready',
        ...(answer.status === undefined ? {} : { note: `its row is ${JSON.stringify(answer.status)}` }),
      }
    case 'released':
      if (answer.delayMs !== undefined) return { end: 'return', reason: 'requested', delayMs: answer.delayMs }
      return held.isStopped ? { end: 'return', reason: 'stopping', delayMs: 0 } : { end: 'return', reason: 'requested' }
    case 'conflict':
      return { end: 'dead_letter', reason: 'key_conflict' }
    case 'dead_letter':
      if (typeof answer.reason !== 'string' || answer.reason === '') {
        throw new Error(
          "the handler returned dead_letter without a reason; write { outcome: 'dead_letter', reason: '…' }",
        )
      }
      return { end: 'dead_letter', reason: answer.reason, error: answer.error }
    case 'again':
      return { end: 'return', reason: 'requested', ...delay(answer.after) }
    default:
      // An unknown outcome must not delete the message.
      throw new Error(
        `the handler returned an unknown outcome: ${JSON.stringify((answer as { outcome: unknown }).outcome)}`,
      )
  }
}

function delay(after: Duration | undefined): { delayMs?: number } {
  return after === undefined ? {} : { delayMs: durationMs('after', after) }
}

function thrown(held: HeldMessage, error: unknown): Disposition {
  if (held.isStopped) return { end: 'return', reason: 'stopping', delayMs: 0 }
  if (error instanceof Fatal) return { end: 'dead_letter', reason: 'fatal', error }
  if (error instanceof ConcurrentModificationError) return { end: 'delete', as: 'concurrent_modification', error }
  if (error instanceof Cancel) return { end: 'delete', as: 'handled' } // The work is no longer wanted.
  if (error instanceof RetryAfter || error instanceof Snooze) {
    return { end: 'return', reason: 'requested', delayMs: error.delayMs, error }
  }
  if (error instanceof DatabaseAway) return { end: 'return', reason: 'database', error: error.cause }
  return { end: 'return', reason: isPostgresError(error) ? 'database' : 'threw', error }
}

/** Whether the database was reachable. undefined: no query of ours was sent. */
export function databaseReachable(disposition: Disposition): boolean | undefined {
  if (disposition.end === 'dead_letter') return undefined
  if (disposition.end === 'delete' || disposition.reason.startsWith('row_') || disposition.reason === 'in_progress')
    return true
  return disposition.reason === 'database' ? false : undefined
}
