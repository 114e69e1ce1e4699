import type { ClientBase, Pool, PoolClient } from 'pg'

/**
 * Runs `work` in one transaction: commits what it returns, rolls back what it throws. A client that cannot even roll
 * back is broken and leaves the pool.
 */
export async function withTransaction<T>(db: Pool | ClientBase, work: (tx: ClientBase) => Promise<T>): Promise<T> {
  const pooled = isPool(db) ? await db.connect() : undefined
  const tx = pooled ?? (db as ClientBase)
  let broken: Error | undefined
  try {
    await tx.query('begin')
    const result = await work(tx)
    await tx.query('commit')
    return result
  } catch (error) {
    await tx.query('rollback').catch((failure: Error) => {
      broken = failure
    })
    throw error
  } finally {
    pooled?.release(broken)
  }
}

// A client can do everything a pool can but hand out clients.
function isPool(db: Pool | ClientBase): db is Pool & { connect(): Promise<PoolClient> } {
  return 'totalCount' in db
}
