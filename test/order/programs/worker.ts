// A worker process for test/order/processes.test.ts. Each start is noted in the database under its lease, so that a process which
// lost it notes nothing. Jobs of even keys are completed in the transaction that notes their end; the others simply return.
import pg from 'pg'
import { handle, kind, Leasehold, withTransaction } from '../../../src/index.ts'

export const step = kind<{ readonly key: number; readonly n: number }>('step', {
  ordered: true,
  maxAttempts: 1_000,
  backoff: { first: 1, max: 1 },
})

const url = process.env.LEASEHOLD_TEST_WORKER
if (url !== undefined) {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  const leasehold = new Leasehold({ connectionString: url, log: () => {} })
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL')) // The test is gone.
  const worker = leasehold.worker(
    [
      handle(step, async (job) => {
        const { key, n } = job.input
        const note = 'insert into noted (key, n, what) values ($1, $2, $3)'
        await withTransaction(pool, async (tx) => {
          await job.assertLease(tx)
          await tx.query(note, [key, n, 'start'])
        })
        if (key % 2 === 1) return
        await withTransaction(pool, async (tx) => {
          await job.complete(tx)
          await tx.query(note, [key, n, 'end'])
        })
      }),
    ],
    { lease: '1s', sweep: '100ms', poll: '100ms', concurrency: 4 },
  )
  process.send?.(worker.identity.id)
  await worker.run()
}
