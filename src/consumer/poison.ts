/** Messages with an impossible id or key: no row, no job can have it. The broker would redeliver them for ever. */
import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkRowId, type RowId } from '../tables/row-id.ts'
import { ask } from './database-away.ts'
import type { Answer } from './disposition.ts'
import type { Message } from './held.ts'

/** The longest key that is stored for messages and for jobs. */
const KEY_BYTES = 1_000

class Poison extends Error {
  override readonly name = 'Poison'
}

/** Wraps the handler: its poison becomes a dead letter. */
export function buryingPoison<Body>(
  handle: (message: Message<Body>) => Promise<Answer>,
): (message: Message<Body>) => Promise<Answer> {
  return async (message) => {
    try {
      return await handle(message)
    } catch (error) {
      if (!(error instanceof Poison)) throw error
      return { outcome: 'dead_letter', reason: 'invalid_body', error: error.cause }
    }
  }
}

/** Errors thrown by `id` itself are not poison. */
export function rowIdOf<Body>(message: Message<Body>, id: (message: Message<Body>) => RowId): RowId {
  const rowId = id(message)
  if ((rowId as unknown) instanceof Promise) {
    throw new InvalidOptionError('id', 'it must return an id, not a promise of one')
  }
  orPoison(() => checkRowId(rowId))
  message.rowId = String(rowId)
  return rowId
}

/** A value of another type is a mistake in `key`, not in the message. */
export function keyOf<Body>(message: Message<Body>, key: ((message: Message<Body>) => string) | undefined): string {
  if (key === undefined) return message.id
  const value: unknown = key(message)
  if (typeof value !== 'string' && value !== undefined && value !== null) {
    throw new InvalidOptionError('key', `it must return a string, not a ${typeof value}`)
  }
  return orPoison(() => checkText('key', value as string, KEY_BYTES))
}

/** `query` has no parameter but the id, so a value that Postgres refuses is the id. */
export async function askById<T>(query: () => Promise<T>): Promise<T> {
  try {
    return await ask(query)
  } catch (error) {
    throw isBadValue(error) ? new Poison('there is no such id', { cause: error }) : error
  }
}

/** Class 22: not a number, a number too large, no UUID, a NUL. */
export function isBadValue(error: unknown): boolean {
  return /^22...$/.test(String((error as { code?: unknown } | null | undefined)?.code))
}

function orPoison<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw new Poison('there is no such thing', { cause: error })
  }
}
