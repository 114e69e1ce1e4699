// Start as many of these as you like. Each runs until SIGTERM; this one also stops after ten seconds, being an example.
import { Fatal, handle, Leasehold, withTransaction } from 'leasehold'
import pg from 'pg'
import { sendReceipt } from './jobs.js'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool })

const worker = leasehold.worker(
  [
    handle(sendReceipt, async (job) => {
      const { orderId, email } = job.input
      if (!email.includes('@')) throw new Fatal(`${orderId} has no address`) // A dead letter: a retry cannot help.
      await withTransaction(pool, async (tx) => {
        await tx.query('insert into receipt values ($1, now())', [orderId])
        // One commit with the receipt. If this worker has lost the job meanwhile, this throws, and both are rolled back.
        await job.complete(tx)
      })
      console.log(`receipt sent for order ${orderId}`)
    }),
  ],
  { concurrency: 20 },
)

const example = setTimeout(() => worker.stop(), 10_000)
await worker.run()
clearTimeout(example)
await pool.end()
console.log('stopped')
