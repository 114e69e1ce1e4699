/** A worker of a queue on the ring. It keeps the last entry of its accounts in memory, which is what a ring is for. */
import { handle, type Job, Leasehold, LeaseLostError, withTransaction } from '../../src/index.ts'
import { type Booking, book } from './accounts.ts'
import { LEASE_MS, QUEUE } from './scale.ts'
import type { Surroundings } from './worker.ts'

export async function runOnRing({ name, pool, tell, work }: Surroundings): Promise<void> {
  const leasehold = new Leasehold({ pool, log: () => {} })
  /** By bucket, so that a bucket that moves takes its part along. */
  const memories = new Map<number, Map<string, number>>()
  const memoryOf = (account: string): Map<string, number> => {
    const owned = worker.owns(QUEUE, account)
    if (owned === undefined) return new Map()
    const memory = memories.get(owned.bucket) ?? new Map()
    memories.set(owned.bucket, memory)
    return memory
  }
  const enter = async (job: Job<Booking>): Promise<void> => {
    const { account, n } = job.input
    const { rows } = await pool.query('select clock_timestamp()::text as at')
    const memory = memoryOf(account)
    const known = memory.get(account)
    const after = known ?? (await lastOf(account))
    await work()
    memory.delete(account)
    await withTransaction(pool, async (tx) => {
      const sql = 'insert into entry (account, n, after, by_memory, worker, began_at) values ($1, $2, $3, $4, $5, $6)'
      await tx.query(sql, [account, n, after, known !== undefined, name, rows[0].at])
      // The entry and the end of the job are one commit. Throws LeaseLostError if another worker has the job by now.
      await job.complete(tx)
    })
    memory.set(account, n)
  }
  const lastOf = async (account: string): Promise<number> => {
    const { rows } = await pool.query('select coalesce(max(n), 0) as n from entry where account = $1', [account])
    return rows[0].n
  }
  const worker = leasehold.worker(
    [
      handle(book, async (job) => {
        try {
          await enter(job)
        } catch (error) {
          if (error instanceof LeaseLostError) tell({ type: 'refused' })
          throw error
        }
      }),
    ],
    { label: name, concurrency: 8, prefetch: 0, lease: LEASE_MS, sweep: '500ms', poll: '200ms', signals: ['SIGTERM'] },
  )
  for (const type of ['gained', 'lost'] as const) {
    worker.on(type, ({ buckets }) => {
      for (const bucket of buckets) memories.delete(bucket)
      tell({ type, buckets })
    })
  }
  await worker.run()
}
