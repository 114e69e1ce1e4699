/** What the adapters share: how a handle is refused, and a Tx that is the same each time. */
import { InvalidOptionError } from '../core/errors.ts'
import type { Queryable } from '../db/lane.ts'
import type { Tx } from '../db/tx.ts'

export function noTransaction(instead: string): InvalidOptionError {
  return new InvalidOptionError('tx', `it is not an open transaction; pass ${instead}`)
}

/** The error about a transaction that has ended, for handles that outlive theirs. */
export function hasEnded(cause?: unknown): InvalidOptionError {
  return new InvalidOptionError('tx', 'its transaction has ended; use it before the callback returns', { cause })
}

/** One Tx for a handle, however often it is adapted: effects in one transaction take turns, and know it by its Tx. */
export function onePerHandle<Handle extends object>(adapt: (handle: Handle) => Tx): (handle: Handle) => Tx {
  const known = new WeakMap<Handle, Tx>()
  return (handle) => {
    const tx = known.get(handle) ?? adapt(handle)
    known.set(handle, tx)
    return tx
  }
}

/** Any version of pg, also one that is not ours. */
export function isPgClient(client: unknown): client is Queryable {
  return typeof client === 'object' && client !== null && 'connectionParameters' in client && 'query' in client
}

/**
 * Sends through the library's pg client itself, past its type parsers and hooks. It does not count on the library to return
 * the text that Postgres printed, nor the column names.
 */
export function throughPgClient(clientOf: () => Promise<unknown>): Queryable {
  return {
    query: async (config) => {
      const client = await clientOf()
      if (!isPgClient(client)) throw new InvalidOptionError('tx', 'its driver is not pg')
      return client.query(config)
    },
  }
}
