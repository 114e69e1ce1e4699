/** One thing after the other, each with its own clock. */
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import type { Contender, Producer } from '../contenders/contender.ts'
import { FIRST_ORDER, makeInputs } from '../inputs.ts'
import { type Latencies, PAYLOAD_BYTES } from './protocol.ts'

const WARM_UP = 100
/** Of a job that was there before. */
const FRONT_MS = 5
const PAUSE_MS = { least: 20, most: 40 }
/** pg-boss's own fallback is half a minute. A contender without notifications shows here, and does not hang. */
const HANDLED_WITHIN_MS = 60_000

export const ORDERS = `create table orders (
  id integer primary key,
  note text not null,
  amount_cents integer not null
)`

const INSERT_ORDER = 'insert into orders (id, note, amount_cents) values ($1, $2, $3)'

export async function transactions(
  contender: Contender,
  url: string,
  count: number,
  bare: boolean,
): Promise<Latencies> {
  const producer = await contender.produce(url, 'backlog')
  const tx = new pg.Client(url)
  await tx.connect()
  await tx.query(ORDERS)
  const milliseconds: number[] = []
  for (const input of makeInputs(WARM_UP + count, PAYLOAD_BYTES)) {
    const began = performance.now()
    await tx.query('begin')
    const values = [input.orderId, input.note, input.amountCents]
    await tx.query({ name: 'insert_order', text: INSERT_ORDER, values })
    if (!bare) await within(producer)(tx, input)
    await tx.query('commit')
    milliseconds.push(performance.now() - began)
  }
  await tx.end()
  await producer.close()
  return { milliseconds: milliseconds.slice(WARM_UP) }
}

function within({ enqueueWithin }: Producer): NonNullable<Producer['enqueueWithin']> {
  if (enqueueWithin === undefined) throw new Error('it cannot enqueue in a transaction of the caller')
  return enqueueWithin
}

/** With `keys`, jobs that are not among those enqueued here may be in the queue as well; their handlers take a while. */
export async function idle(contender: Contender, url: string, count: number, keys = 0): Promise<Latencies> {
  const inputs = makeInputs(WARM_UP + count, PAYLOAD_BYTES).map((input) => {
    return keys === 0 ? input : { ...input, key: `late:${input.orderId % keys}` }
  })
  const began: number[] = []
  const started: number[] = []
  let handled = 0
  let onLast = () => {}
  const all = new Promise<'all'>((resolve) => {
    onLast = () => resolve('all')
  })
  const producer = await contender.produce(url, 'latency')
  const work = await contender.work(url, 'latency', async ({ orderId, key }) => {
    if (keys > 0 && !key!.startsWith('late:')) return setTimeout(FRONT_MS)
    started[orderId - FIRST_ORDER] = performance.now()
    if (++handled === inputs.length) onLast()
  })
  for (const [at, input] of inputs.entries()) {
    await setTimeout(PAUSE_MS.least + Math.random() * (PAUSE_MS.most - PAUSE_MS.least))
    began[at] = performance.now()
    await producer.enqueue(input)
  }
  const late = setTimeout(HANDLED_WITHIN_MS, 'late', { ref: false })
  if ((await Promise.race([all, late])) === 'late') throw new Error('a job was not handled within a minute')
  await work.stop()
  await producer.close()
  return { milliseconds: started.slice(WARM_UP).map((at, i) => at - began[WARM_UP + i]!) }
}
