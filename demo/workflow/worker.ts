// A worker process: `node --import tsx demo/workflow/worker.ts "worker 1" 1`, started by crew.ts. The second argument is the version that is
// deployed here, or `by-hand`.
import pg from 'pg'
import { handle, Leasehold } from '../../src/index.ts'
import { handleRuns } from '../../src/workflow/index.ts'
import { byHand, checkout, plainCheckout } from './checkout.ts'
import { CONCURRENCY, LEASE } from './scale.ts'

const [name = 'worker', deployed] = process.argv.slice(2)
const url = process.env.SERVICES_URL!
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool, log: () => {} })
const handler =
  deployed === 'by-hand'
    ? handle(plainCheckout, byHand(pool, url))
    : handleRuns(checkout(deployed === '2' ? 2 : 1, url))
const worker = leasehold.worker([handler], {
  // By hand an order that waits takes a slot.
  concurrency: deployed === 'by-hand' ? 50 : CONCURRENCY,
  prefetch: 0,
  lease: LEASE,
  sweep: '500ms',
  poll: '200ms',
  label: name,
  signals: ['SIGTERM'],
})
// The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
process.on('disconnect', () => process.exit())
// Ctrl-C is for the demo, which then ends us.
process.on('SIGINT', () => {})
const running = worker.run()
process.send?.({ type: 'ready' })
await running
await pool.end()
process.disconnect?.()
