// A worker process for test/fleet/processes.test.ts. Handlers note their start and their end in the database under their lease, and
// the process reports which buckets it gains and loses.
import pg from 'pg'
import { handle, kind, Leasehold, withTransaction } from '../../../src/index.ts'

export const step = kind<{ readonly key: number; readonly n: number }>('step', {
  ordered: true,
  maxAttempts: 3,
  backoff: { first: 1, max: 1 },
})

export interface Report {
  readonly e: 'ready' | 'gained' | 'lost'
  readonly id?: string
  readonly at: number
  readonly buckets: readonly number[]
}

const url = process.env.LEASEHOLD_TEST_WORKER
if (url !== undefined) {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  pool.on('error', () => {})
  const leasehold = new Leasehold({ connectionString: url, log: () => {} })
  const report = (line: Omit<Report, 'at'>) => void process.send?.({ ...line, at: Date.now() } satisfies Report)
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL')) // The test is gone.
  const worker = leasehold.worker(
    [
      handle(step, async (job) => {
        const { key, n } = job.input
        const note = 'insert into noted (key, n, what, worker) values ($1, $2, $3, $4)'
        await withTransaction(pool, async (tx) => {
          await job.assertLease(tx)
          await tx.query(note, [key, n, 'start', worker.identity.id])
        })
        await withTransaction(pool, async (tx) => {
          await job.complete(tx)
          await tx.query(note, [key, n, 'end', worker.identity.id])
        })
      }),
    ],
    { lease: '3s', sweep: '200ms', poll: '200ms', concurrency: 4, grace: '30s' },
  )
  worker.on('gained', ({ buckets }) => report({ e: 'gained', buckets }))
  worker.on('lost', ({ buckets }) => report({ e: 'lost', buckets }))
  report({ e: 'ready', id: worker.identity.id, buckets: [] })
  await worker.run()
  await leasehold.close()
  await pool.end()
  process.disconnect?.()
  process.exit()
}
