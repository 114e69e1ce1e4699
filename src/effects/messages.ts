/** Messages of another queue, which delivers at least once: handled once, in the transaction of their effects. */
import type { ClientBase, Pool } from 'pg'
import { checkInteger, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane } from '../db/lane.ts'
import { withTransaction } from '../db/transaction.ts'
import { beInATransaction } from '../jobs/completion.ts'
import { FIRST_TIME, PRUNE_MESSAGES } from './message.sql.ts'

const DAY_MS = 86_400_000
const NAME_BYTES = 200
const ID_BYTES = 1_000
/** Of one message, when Postgres aborts its transaction. */
const ATTEMPTS = 20

export interface MessageSourceOptions {
  /** How long the queue may redeliver a message: its retention, since a message can wait that long. Default: 14d. */
  readonly redeliveredFor?: Duration
  /** How long its id is remembered; must be longer. Default: a day longer. */
  readonly keep?: Duration
}

/** A queue, topic or webhook whose message ids are unique within it. */
export interface MessageSource {
  readonly name: string
  readonly keepMs: number
}

/** Declares a source of messages. Throws if ids would be forgotten before the queue stops redelivering. */
export function messageSource(name: string, options: MessageSourceOptions = {}): MessageSource {
  checkText('messageSource', name, NAME_BYTES)
  checkOptions('messageSource', options, ['redeliveredFor', 'keep'])
  const redeliveredForMs = durationMs('messageSource.redeliveredFor', options.redeliveredFor ?? '14d')
  const keepMs = durationMs('messageSource.keep', options.keep ?? redeliveredForMs + DAY_MS)
  if (keepMs <= redeliveredForMs) {
    throw new InvalidOptionError(
      'messageSource.keep',
      'it must be longer than redeliveredFor, or a redelivery runs twice',
    )
  }
  return { name, keepMs }
}

export function checkSource(source: MessageSource): void {
  if (typeof source?.keepMs === 'number') return
  throw new InvalidOptionError('source', "declare it with messageSource('name', { … })")
}

/** Whether this message is new. It counts as handled exactly when the caller's transaction commits. */
export async function firstTime(tx: Lane, source: MessageSource, messageId: string): Promise<boolean> {
  checkSource(source)
  const values = [source.name, checkText('messageId', messageId, ID_BYTES), source.keepMs]
  await beInATransaction(tx)
  return (await settlingConflicts(tx.standsAlone, () => tx.run(FIRST_TIME, values))).length > 0
}

/** The outcome of a message. */
export type HandledMessage<T> =
  | { readonly outcome: 'applied'; readonly result: T }
  | { readonly outcome: 'already_handled' }

export function oncePerMessage<T>(
  lane: Lane,
  pool: Pool,
  source: MessageSource,
  messageId: string,
  handle: (tx: ClientBase) => Promise<T> | T,
): Promise<HandledMessage<T>> {
  const work = async (tx: ClientBase): Promise<HandledMessage<T>> => {
    if (!(await firstTime(lane.within(tx), source, messageId))) return { outcome: 'already_handled' }
    return { outcome: 'applied', result: await handle(tx) }
  }
  return withTransaction(pool, work, { attempts: ATTEMPTS })
}

/** Deletes messages past their retention. Returns how many. */
export async function pruneMessages(lane: Lane, limit = 10_000): Promise<number> {
  return (await lane.run(PRUNE_MESSAGES, [checkInteger('limit', limit, 1, 10_000)])).length
}
