/**
 * The process of one contender, a producer or a worker. It runs on the Node of bench/package.json, which strips types by
 * itself, so nothing but the contender's own code is in the way. It ends with the process that started it.
 */
import { setTimeout } from 'node:timers/promises'
import { load } from '../contenders/all.ts'
import type { Handle, Work } from '../contenders/contender.ts'
import type { ContenderName } from '../contenders/names.ts'
import { FIRST_ORDER, type Input, makeInputs } from '../inputs.ts'
import { serverMicros } from '../processors.ts'
import { handlerMs as handlerMsOf, pace, trickle } from './arrivals.ts'
import { claims } from './claims.ts'
import { idle, transactions } from './latencies.ts'
import { OrderWatch } from './order-watch.ts'
import { type Commands, type Message, monotonicMs, PAYLOAD_BYTES, type Request, type WarmUp } from './protocol.ts'
import { countStatements } from './statements.ts'
import { Tally, usage } from './tally.ts'

const contender = await load(process.argv[2] as ContenderName)
countStatements()
let tally = new Tally(0, [], () => {})
let work: Work | undefined
let finished = 0
let startedAtMs: (number | null)[] = []

type Serving = {
  [Name in keyof Commands]: (options: Parameters<Commands[Name]>[0]) => Promise<ReturnType<Commands[Name]>>
}

const commands: Serving = {
  describe: async () => {
    const { version, why, enqueueBatch, unfinished } = contender
    return { version, why, enqueueBatch, unfinished, node: process.version }
  },

  setUp: async ({ url }) => {
    await contender.setUp(url)
    return {}
  },

  fill: async ({ url, from, to, warmUp, keys, keyOrder, batch: asked, postmaster }) => {
    const producer = await contender.produce(url, 'backlog')
    // Few jobs go in smaller batches, so that some are left after the warm-up.
    const size = asked ?? Math.min(contender.enqueueBatch, Math.ceil((to - from) / 10))
    const batches = []
    for (let at = from; at < to; at += size)
      batches.push(makeInputs(Math.min(size, to - at), PAYLOAD_BYTES, at, keys, keyOrder))
    const enqueue = (inputs: Input[]) => (size === 1 ? producer.enqueue(inputs[0]!) : producer.enqueueMany(inputs))
    let warm = 0
    while (warm < warmUp) {
      const batch = batches.shift()!
      await enqueue(batch)
      warm += batch.length
    }
    const server = () => (postmaster === undefined ? null : serverMicros(postmaster))
    const [before, serverBefore] = [usage(0), server()]
    for (const batch of batches) await enqueue(batch)
    const [after, serverAfter] = [usage(0), server()]
    await producer.close()
    const seconds = (after.atMs - before.atMs) / 1000
    const databaseMicros = serverBefore === null || serverAfter === null ? null : serverAfter - serverBefore
    return { jobs: to - from - warm, seconds, nodeMicros: after.nodeMicros - before.nodeMicros, databaseMicros }
  },

  produce: async ({ url, from, to, batch, backlog }) => {
    const producer = await contender.produce(url, 'steady')
    const inputs = makeInputs(to - from, PAYLOAD_BYTES, from)
    const firstAtMs = monotonicMs()
    for (let at = 0; at < inputs.length; at += batch) {
      while (at + batch - finished > backlog) await setTimeout(1)
      await producer.enqueueMany(inputs.slice(at, at + batch))
    }
    await producer.close()
    return { firstAtMs }
  },

  finished: async ({ count }) => {
    finished = count
    return {}
  },

  transactions: ({ url, count, bare }) => transactions(contender, url, count, bare),

  idle: ({ url, count, keys }) => idle(contender, url, count, keys),

  claims: (options) => claims(contender, options),

  trickle: (options) => trickle(contender, options),

  pace: (options) => pace(contender, options),

  work: async ({
    url,
    style,
    jobs,
    handlerMs = 0,
    handlerMeanMs = 0,
    warmUp,
    marks,
    collectGarbage = false,
    ordered,
  }) => {
    const onMark = () => send({ type: 'mark', usage: usage(tally.handled, collectGarbage) })
    tally = new Tally(jobs, marks, onMark)
    if (ordered !== undefined) {
      work = await contender.work(url, style, inOrder(ordered ? new OrderWatch() : undefined))
    } else if (handlerMeanMs > 0) {
      startedAtMs = new Array(jobs).fill(null)
      work = await contender.work(url, style, varying(handlerMeanMs, warmUp ?? NONE))
    } else {
      work = await contender.work(url, style, handlerMs === 0 ? instant : waiting(handlerMs))
    }
    return {}
  },

  usage: async ({ collectGarbage }) => usage(tally.handled, collectGarbage),

  starts: async () => ({ startedAtMs }),

  seen: async () => ({ jobs: Buffer.from(tally.seen).toString('base64') }),

  stop: async () => {
    await work?.stop()
    return { handled: tally.handled }
  },
}

const NONE: WarmUp = { jobs: 0, faster: 1 }
const instant: Handle = async ({ orderId }) => count(orderId)

function waiting(handlerMs: number): Handle {
  return async ({ orderId }) => {
    count(orderId)
    await setTimeout(handlerMs)
  }
}

function varying(meanMs: number, warmUp: WarmUp): Handle {
  return async ({ orderId }) => {
    startedAtMs[orderId - FIRST_ORDER] = monotonicMs()
    count(orderId)
    await setTimeout(handlerMsOf(orderId, meanMs, warmUp))
  }
}

/** The same handler for queues that keep no order, without the check. */
function inOrder(watch: OrderWatch | undefined): Handle {
  return async ({ orderId, key }) => {
    reporting(() => watch?.started(key!, orderId))
    count(orderId)
    await null
    reporting(() => watch?.ended(key!))
  }
}

function count(orderId: number): void {
  reporting(() => tally.add(orderId))
}

function reporting(check: () => void): void {
  try {
    check()
  } catch (error) {
    send({ type: 'error', id: null, message: String(error) })
  }
}

function send(message: Message): void {
  process.send?.(message)
}

async function answer({ id, command, options }: Request): Promise<void> {
  try {
    const serve = commands[command] as (options: unknown) => Promise<unknown>
    send({ type: 'result', id, result: await serve(options) })
  } catch (error) {
    send({ type: 'error', id, message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
}

process.on('message', (request: Request) => void answer(request))
process.on('disconnect', () => process.exit())
