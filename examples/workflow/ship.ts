// ship.ts
import { Leasehold } from 'leasehold'
import { signal } from 'leasehold/workflow'
import { checkout } from './checkout.js'

const order = Number(process.argv[2] ?? 9182)
const parcel = `parcel-${order}`
const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
const outcome = await signal(leasehold, checkout, `order-${order}`, 'shipped', { parcel }, { idempotencyKey: parcel })
console.log(`signal: ${outcome}`)
await leasehold.close()
