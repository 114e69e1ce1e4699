// worker.ts
import { Leasehold } from 'leasehold'
import { handleRuns } from 'leasehold/workflow'
import { checkout } from './checkout.js'

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
// Two seconds, so that you need not wait: the default is 30s.
const worker = leasehold.worker([handleRuns(checkout)], { lease: '2s', sweep: '1s' })
console.log(`worker ${process.pid}`)
await worker.run() // Until SIGTERM or Ctrl-C.
await leasehold.close()
