/** The checkout, as a workflow in two versions, and by hand as one plain job. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Job, kind } from '../../src/index.ts'
import { type Step, type Workflow, workflow } from '../../src/workflow/index.ts'
import { callProvider } from '../../tools/provider.ts'
import type { Version } from './scale.ts'

export interface Order {
  readonly order: number
  /** How long the customer waits for the shipment. */
  readonly patienceMs: number
}

export type Service = 'reserve' | 'check' | 'charge' | 'receipt' | 'notify' | 'refund' | 'release'

/** As the provider records it. */
export function effectOf(service: Service, order: number): string {
  return `${service}/${order}`
}

/** Without `url` it can be started and signalled, not executed. */
export function checkout(version: Version, url?: string): Workflow<Order, Order, string> {
  const declaration = { version, retry: { backoff: { first: '100ms', max: '1s' } } } as const
  if (url === undefined) return workflow<Order, string>('checkout', declaration)
  return workflow<Order, string>('checkout', declaration, async (run, { order, patienceMs }) => {
    // The key is the same on every attempt of a step: a service that knows it answers, and does nothing twice.
    const call = (service: Service) => (step: Step) => callProvider(url, effectOf(service, order), step.effectKey)
    const undoneBy = (service: Service) => ({ compensate: (_: unknown, step: Step) => call(service)(step) })

    await run.step('reserve', undoneBy('release'), call('reserve'))
    if (version === 2) await run.step('fraud check', call('check'))
    await run.step('charge', undoneBy('refund'), call('charge'))
    await run.tx('book', async (tx) => void (await tx.query('insert into booking values ($1)', [order])))
    await run.step('receipt', call('receipt'))
    const first = await run.any({ shipped: run.signal('shipped'), late: run.sleep(patienceMs) })
    if (first.name === 'late') return run.compensate('never shipped')
    run.commit()
    await run.step('notify', call('notify'))
    return 'shipped'
  })
}

export const plainCheckout = kind<Order>('checkout', { maxAttempts: 30, backoff: { first: '100ms', max: '1s' } })

/** The same by hand. Nothing remembers how far it came: a job whose worker dies starts at the top. */
export function byHand(pool: pg.Pool, url: string) {
  return async ({ input: { order, patienceMs } }: Job<Order>): Promise<string> => {
    const call = (service: Service) => callProvider(url, effectOf(service, order))
    await call('reserve')
    await call('charge')
    await pool.query('insert into booking values ($1)', [order])
    await call('receipt')
    while (!(await isShipped(pool, order))) {
      if (await hasWaited(pool, order, patienceMs)) {
        await call('refund')
        await call('release')
        return 'never shipped'
      }
      await sleep(100)
    }
    await call('notify')
    return 'shipped'
  }
}

async function isShipped(pool: pg.Pool, order: number): Promise<boolean> {
  return (await pool.query('select from shipment where order_id = $1', [order])).rowCount! > 0
}

async function hasWaited(pool: pg.Pool, order: number, ms: number): Promise<boolean> {
  const sql = `select from orders where id = $1 and placed_at < now() - $2 * interval '1 ms'`
  return (await pool.query(sql, [order, ms])).rowCount! > 0
}
