import type { ClientBase, Pool, PoolClient } from 'pg'
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError, RolledBackError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { isConflict, waitAfterConflict } from './conflict.ts'
import { checkOut } from './pooled.ts'

export interface TransactionOptions {
  /** Default: what the database is set to, usually read committed. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable'
  /**
   * How often `work` is begun at most, when Postgres gives it up in favour of another transaction (40001, 40P01). All that
   * it did in the database is undone before it begins again; what it did elsewhere is not. Default: 1.
   */
  readonly attempts?: number
}

const BEGIN = {
  'read committed': 'begin isolation level read committed',
  'repeatable read': 'begin isolation level repeatable read',
  serializable: 'begin isolation level serializable',
} as const

/**
 * Runs `work` in one transaction: commits what it returns, rolls back what it throws. A client that cannot even roll
 * back is broken and leaves the pool.
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
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(db, begin, work)
    } catch (error) {
      if (attempt >= attempts || !isConflict(error)) throw error
    }
    await waitAfterConflict(attempt)
  }
}

async function once<T>(db: Pool | ClientBase, begin: string, work: (tx: ClientBase) => Promise<T>): Promise<T> {
  const pooled = isPool(db) ? await checkOut(db) : undefined
  const tx = pooled?.client ?? (db as ClientBase)
  let broken: Error | undefined
  try {
    await tx.query(begin)
    const result = await work(tx)
    // After a failed statement, even one whose error was caught, Postgres answers COMMIT with ROLLBACK and no error.
    const { command } = await tx.query('commit')
    if (command !== 'COMMIT') throw new RolledBackError()
    return result
  } catch (error) {
    await tx.query('rollback').catch((rollbackError) => {
      broken = rollbackError
    })
    throw error
  } finally {
    pooled?.giveBack(broken)
  }
}

// A client can do everything a pool can but hand out clients.
export function isPool(db: object): db is Pool & { connect(): Promise<PoolClient> } {
  return 'totalCount' in db
}
