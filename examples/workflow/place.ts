// place.ts
import { Leasehold, withTransaction } from 'leasehold'
import { start } from 'leasehold/workflow'
import pg from 'pg'
import { checkout } from './checkout.js'

const order = Number(process.argv[2] ?? 9182)
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool })
await leasehold.migrate() // Safe at every start.
await pool.query('create table if not exists orders (id integer primary key)')
await pool.query('create table if not exists booking (order_id integer not null, cents integer not null)')

const { runId, outcome } = await withTransaction(pool, async (tx) => {
  await tx.query('insert into orders values ($1) on conflict do nothing', [order])
  return start(leasehold, checkout, { order, cents: 1999 }, { tx, runId: `order-${order}` })
})
console.log(`run ${runId}: ${outcome}`)
await pool.end()
