// An order is paid and its receipt enqueued in one commit: it can neither be forgotten, nor sent for an order that was not
// paid after all.
import { Leasehold, withTransaction } from 'leasehold'
import pg from 'pg'
import { sendReceipt } from './jobs.js'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool })

await leasehold.migrate() // Safe at every start, by any number of processes.
await pool.query('create table if not exists orders (id integer primary key, email text not null)')
await pool.query('create table if not exists receipt (order_id integer not null, sent_at timestamptz not null)')

function pay(orderId: number, email: string, charge: () => Promise<void>) {
  return withTransaction(pool, async (tx) => {
    await tx.query('insert into orders values ($1, $2) on conflict (id) do nothing', [orderId, email])
    const { outcome } = await leasehold.enqueue(
      sendReceipt,
      { orderId, email },
      { tx, idempotencyKey: `receipt-${orderId}`, partitionKey: `order:${orderId}` },
    )
    await charge()
    return outcome
  })
}

const accepted = async () => {}
const declined = async () => {
  throw new Error('card declined')
}

console.log('order 9182:', await pay(9182, 'ada@example.com', accepted))
// The reply was lost, or the customer pressed the button twice: the same key gets the same job.
console.log('order 9182 again:', await pay(9182, 'ada@example.com', accepted))
// The transaction is rolled back, and the job with it.
console.log('order 9183:', await pay(9183, 'bob@example.com', declined).catch((error: Error) => error.message))
const jobs = await leasehold.list({ kind: sendReceipt })
console.log('jobs:', jobs.map(({ idempotencyKey, status }) => `${idempotencyKey} ${status}`).join(', '))

await pool.end()
