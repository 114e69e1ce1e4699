import type { ClientBase, Pool, PoolClient } from 'pg'
import { RolledBackError } from '../core/errors.ts'

/**
 * Runs `work` in one transaction: commits what it returns, rolls back what it throws. A client that cannot even roll
 * back is broken and leaves the pool.
 */
export async function withTransaction<T>(db: Pool | ClientBase, work: (tx: ClientBase) => Promise<T>): Promise<T> {
  const pooled = isPool(db) ? await db.connect() : undefined
  const tx = pooled ?? (db as ClientBase)
  let broken: Error | undefined
  // A connection lost while `work` awaits something else has nobody to tell, and Node ends the process. The next query on
  // it rejects, so nothing is hidden.
  const onError = (error: Error) => {
    broken = error
  }
  pooled?.on('error', onError)
  try {
    await tx.query('begin')
    const result = await work(tx)
    // After a failed statement, even one whose error was caught, Postgres answers COMMIT with ROLLBACK and no error.
    const { command } = await tx.query('commit')
    if (command !== 'COMMIT') throw new RolledBackError()
    return result
  } catch (error) {
    await tx.query('rollback').catch(onError)
    throw error
  } finally {
    pooled?.off('error', onError)
    pooled?.release(broken)
  }
}

// A client can do everything a pool can but hand out clients.
function isPool(db: Pool | ClientBase): db is Pool & { connect(): Promise<PoolClient> } {
  return 'totalCount' in db
}
