// Jobs of one key run in order, also when one fails. Jobs of other keys go on meanwhile.
import { handle, kind, Leasehold, queue } from 'leasehold'

const orders = queue('orders', { ordered: true })
const applyEvent = kind<{ order: number; event: string }>('apply_event', {
  queue: 'orders',
  ordered: true,
  backoff: { first: '100ms' },
})

const leasehold = new Leasehold({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })
await leasehold.migrate()
await leasehold.configure([orders, applyEvent])

for (const order of [9182, 9183]) {
  await leasehold.enqueueMany(
    applyEvent,
    ['paid', 'packed', 'shipped'].map((event) => ({ input: { order, event }, partitionKey: `order:${order}` })),
  )
}

// Works until nothing is left to claim.
let carrierIsDown = true
for (let completed = 0; completed < 6; ) {
  const tally = await leasehold.drain([
    handle(applyEvent, ({ input: { order, event } }) => {
      if (order === 9182 && event === 'packed' && carrierIsDown) {
        carrierIsDown = false
        throw new Error('the carrier is down')
      }
      console.log(`order ${order}: ${event}`)
    }),
  ])
  completed += tally.completed
}
await leasehold.close()
