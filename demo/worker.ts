// A worker process of the demo: `node --import tsx demo/worker.ts "worker 2" [unfenced]`, started by crew.ts.
import { EventEmitter, once } from 'node:events'
import pg from 'pg'
import { Fatal, handle, type Job, Leasehold, LeaseLostError, withTransaction } from '../src/index.ts'
import { sendReceipt } from './jobs.ts'
import type { Claim, FromWorker, ToWorker } from './messages.ts'
import { CONCURRENCY, LEASE } from './scale.ts'

type Receipt = Job<{ orderId: number; email: string }>

const [name = 'worker', mode] = process.argv.slice(2)
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool, log: () => {} })

async function send(job: Receipt): Promise<void> {
  const { orderId, email } = job.input
  if (!email.includes('@')) throw new Fatal(`${JSON.stringify(email)} is no address`)
  // A careful handler passes job.signal on and stops here when its lease is lost. This one does not: it goes on, and only
  // the fence stops it.
  await print({ orderId, generation: job.generation })
  await withTransaction(pool, async (tx) => {
    await tx.query('insert into receipt (order_id, generation, worker) values ($1, $2, $3)', [
      orderId,
      job.generation,
      name,
    ])
    // The receipt and the end of the job are one commit. Throws LeaseLostError if another worker has the job by now.
    if (mode !== 'unfenced') await job.complete(tx)
  })
}

async function sendAndTell(job: Receipt): Promise<void> {
  const claim = { orderId: job.input.orderId, generation: job.generation }
  try {
    await send(job)
    tell({ type: 'sent', ...claim })
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error
    await pool.query('insert into refusal (order_id, generation, worker) values ($1, $2, $3)', [
      claim.orderId,
      claim.generation,
      name,
    ])
    tell({ type: 'refused', ...claim })
    throw error
  }
}

const printed = new EventEmitter()

function print(claim: Claim): Promise<unknown> {
  tell({ type: 'printing', ...claim })
  return once(printed, `${claim.orderId}/${claim.generation}`)
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}

process.on('message', ({ orderId, generation }: ToWorker) => printed.emit(`${orderId}/${generation}`))
// The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
process.on('disconnect', () => process.exit())

const worker = leasehold.worker([handle(sendReceipt, sendAndTell)], {
  concurrency: CONCURRENCY,
  // No prefetch, so that a worker holds only the jobs it is working on.
  prefetch: 0,
  lease: LEASE,
  sweep: '500ms',
  poll: '200ms',
  label: name,
})
const running = worker.run()
tell({ type: 'ready' })
await running
await pool.end()
process.disconnect()
