/** Our statements and transactions on a pool. */
import type { Pool, PoolClient, PoolConfig, QueryArrayConfig, QueryArrayResult } from 'pg'
import { DeadlineError } from '../core/errors.ts'
import { monotonicMs, withDeadline } from '../core/timer.ts'
import { cancelAndDestroy } from './cancel.ts'
import type { Queryable } from './lane.ts'

/** Begins as pg's own error does, by which others recognise it. */
const CLOSED =
  'Cannot use a pool after calling end on the pool: close() was called on this Leasehold, or end() on its pool. ' +
  'Call close() last, or make a new Leasehold.'

/** A client of a pool, until it is released. */
export interface CheckedOut {
  readonly client: PoolClient
  /** Releases the client to the pool, which closes it if it is broken. */
  giveBack(broken?: Error): void
}

/**
 * Takes a client from the pool. The listener is attached inside the pool's callback: a promise would resolve a moment later,
 * and a server that ends the session in the same packet that opens it would emit `error` to no listener, which ends the
 * process. An error between queries is not lost: the next query on the client rejects. Wrappers of pools may offer only the
 * promise; then it is used.
 */
export function checkOut(pool: Pool): Promise<CheckedOut> {
  return new Promise((resolve, reject) => {
    if (pool.ending) return reject(new Error(CLOSED))
    const take = (client: PoolClient) => {
      let lost: Error | undefined
      const onError = (error: Error) => {
        lost = error
      }
      client.on('error', onError)
      const giveBack = (broken?: Error) => {
        client.off('error', onError)
        client.release(broken ?? lost)
      }
      resolve({ client, giveBack })
    }
    const promised: unknown = pool.connect((error, client) => {
      if (error !== undefined || client === undefined) reject(error)
      else take(client)
    })
    if (promised instanceof Promise) promised.then(take, reject)
  })
}

/** Of a producer's statement, and of its wait for a client. */
export const PRODUCER_DEADLINE_MS = 30_000

/** A client of a pool, each of whose statements has a deadline. After one was missed it sends nothing more. */
class ClientWithDeadline implements Queryable {
  readonly #client: PoolClient
  readonly #deadlineMs: number
  /** The statement that missed its deadline, which may still be carried out. */
  missed: { readonly statement: Promise<unknown>; readonly error: Error } | undefined

  constructor(client: PoolClient, deadlineMs: number) {
    this.#client = client
    this.#deadlineMs = deadlineMs
  }

  /** `withinMs`: what is left of the deadline. */
  async query(asked: QueryArrayConfig | string, withinMs = this.#deadlineMs): Promise<QueryArrayResult> {
    if (this.missed !== undefined) throw this.missed.error
    const config = typeof asked === 'string' ? { text: asked } : asked
    // The driver's own limit must not fire first: it would leave the statement running on the server.
    const statement = this.#client.query({ ...config, query_timeout: 2 ** 31 - 1 } as unknown as QueryArrayConfig)
    return withDeadline(statement, withinMs, () => {
      const error = late(this.#deadlineMs)
      this.missed = { statement, error }
      return error
    })
  }
}

export interface CheckedOutWithDeadline {
  readonly client: ClientWithDeadline
  giveBack(broken?: Error): void
}

/** A statement that misses its deadline is cancelled when the client is released. */
export async function checkOutWithDeadline(pool: Pool, deadlineMs: number): Promise<CheckedOutWithDeadline> {
  const checkedOut = checkOut(pool)
  const { client, giveBack } = await withDeadline(checkedOut, deadlineMs, () => late(deadlineMs)).catch((error) => {
    void checkedOut.then(
      ({ giveBack }) => giveBack(),
      () => {},
    )
    throw error
  })
  const own = new ClientWithDeadline(client, deadlineMs)
  return {
    client: own,
    giveBack: (broken) => {
      const { missed } = own
      if (missed === undefined) return giveBack(broken)
      const { stream } = pool.options as PoolConfig
      void cancelAndDestroy(client, missed.statement, stream).then(() => giveBack(missed.error))
    },
  }
}

function late(deadlineMs: number): DeadlineError {
  return new DeadlineError('A statement', deadlineMs)
}

/**
 * Single statements on a pool, each under our own deadline, which includes waiting for a client. `statement_timeout` would also
 * apply to migrations and to the user's own transactions on this pool.
 */
export class PooledStatements implements Queryable {
  readonly #pool: Pool
  #deadlineMs: () => number

  constructor(pool: Pool, deadlineMs: number) {
    this.#pool = pool
    this.#deadlineMs = () => deadlineMs
  }

  /** One deadline from now on for all of its statements together. */
  static together(pool: Pool, deadlineMs: number): PooledStatements {
    const endsAt = monotonicMs() + deadlineMs
    const made = new PooledStatements(pool, deadlineMs)
    made.#deadlineMs = () => Math.max(1, endsAt - monotonicMs())
    return made
  }

  async query(config: QueryArrayConfig): Promise<QueryArrayResult> {
    const deadlineMs = this.#deadlineMs()
    const since = monotonicMs()
    const { client, giveBack } = await checkOutWithDeadline(this.#pool, deadlineMs)
    try {
      const answer = await client.query(config, Math.max(1, deadlineMs - (monotonicMs() - since)))
      giveBack()
      return answer
    } catch (error) {
      // After any error a new client certainly works, as after pool.query().
      giveBack(error as Error)
      throw error
    }
  }
}
