// A payment and its event commit together. A relay sends the event to two destinations; one of them is down at first.
import { Leasehold, withTransaction } from 'leasehold'
import { DestinationUnavailable, deliver, destination, inProcess, Outbox, type Transport } from 'leasehold/outbox'
import pg from 'pg'

const billing = destination('billing', { transport: 'in_process', types: ['order.*'] })
const search = destination('search', { transport: 'in_process' })

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
const leasehold = new Leasehold({ pool })
const outbox = new Outbox(leasehold, { source: '/orders' })
await leasehold.migrate()
await outbox.configure([billing, search])
await pool.query('create table if not exists orders (id integer primary key, status text not null)')

for (const status of ['placed', 'paid', 'shipped']) {
  await withTransaction(pool, async (tx) => {
    await tx.query('insert into orders values (9182, $1) on conflict (id) do update set status = excluded.status', [
      status,
    ])
    await outbox.publish(tx, { type: `order.${status}`, key: 'order:9182', data: { order: 9182, status } })
  })
}

// Rolled back with the change: there is no such event.
await withTransaction(pool, async (tx) => {
  await outbox.publish(tx, { type: 'order.cancelled', key: 'order:9182' })
  throw new Error('not cancelled')
}).catch((error: Error) => console.log(error.message))

const received = inProcess((event) => console.log(`billing: ${event.type}`))
let isDown = true
const sometimesDown: Transport = {
  ...inProcess((event) => console.log(`search: ${event.type}`)),
  send: async (events, signal) => {
    if (isDown) {
      isDown = false
      throw new DestinationUnavailable('the search engine is down')
    }
    return inProcess((event) => console.log(`search: ${event.type}`)).send(events, signal)
  },
}
const relay = outbox.relay([deliver(billing, received), deliver(search, sometimesDown)])
const running = relay.run()
relay.worker.on('completed', async () => {
  if ((await outbox.lag()).every(({ unsent }) => unsent === 0)) await relay.stop()
})
await running
await leasehold.close()
await pool.end()
