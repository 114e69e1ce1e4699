// checkout.ts
import { workflow } from 'leasehold/workflow'
import { services } from './services.js'

interface Order {
  order: number
  cents: number
}

export const checkout = workflow<Order, string>('checkout', {}, async (run, { order, cents }) => {
  await run.step('reserve', { compensate: (_, step) => services.release(order, step.effectKey) }, (step) =>
    services.reserve(order, step.effectKey),
  )
  await run.step('charge', { compensate: (_, step) => services.refund(order, step.effectKey) }, (step) =>
    services.charge(order, step.effectKey),
  )
  await run.tx('book', async (tx) => {
    await tx.query('insert into booking values ($1, $2)', [order, cents])
  })
  const first = await run.any({ shipped: run.signal<{ parcel: string }>('shipped'), late: run.sleep('7d') })
  if (first.name === 'late') return run.compensate('never shipped')
  run.commit() // What was done so far is not undone any more.
  await run.step('notify', (step) => services.notify(order, step.effectKey))
  return `shipped as ${first.value.parcel}`
})
