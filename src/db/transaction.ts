import type { ClientBase, Pool, PoolClient } from 'pg'
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError, RolledBackError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { ATTEMPTS, isConflict, waitAfterConflict } from './conflict.ts'
import type { Queryable } from './lane.ts'
import { checkOut, checkOutWithDeadline } from './pooled.ts'

export interface TransactionOptions {
  /** Default: the database's setting, usually read committed. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable'
  /**
   * How often `work` begins at most, when Postgres aborts it in favour of another transaction (40001, 40P01). Its changes
   * in the database are rolled back before it begins again; its effects elsewhere are not. Default: 1.
   */
  readonly attempts?: number
}

const BEGIN = {
  'read committed': 'begin isolation level read committed',
  'repeatable read': 'begin isolation level repeatable read',
  serializable: 'begin isolation level serializable',
} as const

/**
 * Runs `work` in one transaction: commits when it returns, rolls back when it throws. A client that cannot roll back is
 * broken and leaves the pool.
 */
export async function withTransaction<T>(
  db: Pool | ClientBase,
  work: (tx: ClientBase) => Promise<T>,
  options: TransactionOptions = {},
): Promise<T> {
  checkOptions('withTransaction', options, ['isolation', 'attempts'])
  const attempts = checkInteger('withTransaction.attempts', options.attempts ?? 1, 1, 1_000)
  const begin = options.isolation === undefined ? 'begin' : BEGIN[options.isolation]
  if (begin === undefined) {
    throw new InvalidOptionError('withTransaction.isolation', `it must be one of ${Object.keys(BEGIN).join(', ')}`)
  }
  const take = isPool(db) ? () => checkOut(db) : async () => ({ client: db, giveBack: () => {} })
  return repeated(attempts, () => once(take, begin, work))
}

/** The same for statements of our own, each of which has a deadline, as does the wait for a client. */
export function withTransactionOfOurs<T>(
  pool: Pool,
  deadlineMs: number,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  return repeated(ATTEMPTS, () => once(() => checkOutWithDeadline(pool, deadlineMs), 'begin', work))
}

async function repeated<T>(attempts: number, attemptOnce: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce()
    } catch (error) {
      if (attempt >= attempts || !isConflict(error)) throw error
    }
    await waitAfterConflict(attempt)
  }
}

interface Sender {
  query(text: string): Promise<{ readonly command: string }>
}

async function once<T, Client extends Sender>(
  take: () => Promise<{ readonly client: Client; giveBack(broken?: Error): void }>,
  begin: string,
  work: (tx: Client) => Promise<T>,
): Promise<T> {
  const { client, giveBack } = await take()
  let broken: Error | undefined
  try {
    await client.query(begin)
    const result = await work(client)
    // After a failed statement, even one whose error was caught, Postgres answers COMMIT with ROLLBACK and no error.
    const { command } = await client.query('commit')
    if (command !== 'COMMIT') throw new RolledBackError()
    return result
  } catch (error) {
    await client.query('rollback').catch((rollbackError) => {
      broken = rollbackError
    })
    throw error
  } finally {
    giveBack(broken)
  }
}

// A client has every method of a pool but those that hand out clients.
export function isPool(db: object): db is Pool & { connect(): Promise<PoolClient> } {
  return 'totalCount' in db
}
