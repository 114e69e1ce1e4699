// show.ts
import { Leasehold } from 'leasehold'
import { getRun } from 'leasehold/workflow'
import { checkout } from './checkout.js'

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
const run = await getRun(leasehold, checkout, `order-${process.argv[2] ?? 9182}`)
for (const { type, name, state } of run?.steps ?? []) console.log(`${type} ${name}: ${state}`)
console.log(
  run?.label === 'waiting' ? `waits for ${run.waitingFor}` : (run?.status ?? 'no such run'),
  run?.result ?? '',
)
await leasehold.close()
