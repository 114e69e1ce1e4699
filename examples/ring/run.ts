// A worker has 20 carts on the ring, in memory. A second one takes a part of them and leaves again: then the first must not trust
// what it remembers of that part.
import { Leasehold, type Worker } from 'leasehold'
import pg from 'pg'
import { addItem, carts, cartWorker } from './cart-worker.js'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
const leasehold = new Leasehold({ pool, log: () => {} })
await leasehold.migrate()
await leasehold.configure([carts, addItem]) // in a deploy step
await pool.query('create table if not exists cart (id text primary key, cents integer not null)')

const CARTS = Array.from({ length: 20 }, (_, n) => `cart:${n}`)

async function addToAll(): Promise<void> {
  const items = CARTS.map((cart) => ({ input: { cart, cents: 5 }, partitionKey: cart }))
  for (const { jobId } of await leasehold.enqueueMany(addItem, [...items, ...items])) await leasehold.waitFor(jobId)
}

async function owners(): Promise<string> {
  const found = await Promise.all(CARTS.map((cart) => leasehold.ownerOf('carts', cart)))
  return [...new Set(found.map((owner) => owner?.label))].sort().join(' and ')
}

/** Resolves when the worker has its share. */
async function start(worker: Worker): Promise<{ running: Promise<void> }> {
  const gained = new Promise((resolve) => worker.on('gained', resolve))
  const running = worker.run()
  await gained
  return { running }
}

const workers = [cartWorker(leasehold, pool, 'first'), cartWorker(leasehold, pool, 'second')] as const
const { running: first } = await start(workers[0])
await addToAll()
const { running: second } = await start(workers[1])
await addToAll()
console.log(`the carts belong to ${await owners()}`)

await workers[1].stop() // as SIGTERM does: its buckets move at once
await second
await addToAll()
console.log(`the carts belong to ${await owners()}`)
await workers[0].stop()
await first
const { rows } = await pool.query('select distinct cents from cart')
console.log(`cents in each cart: ${rows.map(({ cents }) => cents).join(', ')}`)
await pool.end()
