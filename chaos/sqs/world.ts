/**
 * The environment of a run: a database and an SQS, each behind a proxy that breaks things, and a witness outside of both.
 */
import { setMaxListeners } from 'node:events'
import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { Leasehold } from '../../src/index.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { type FaultRule, type FaultySqs, startFaultySqs } from '../../tools/faulty-sqs.ts'
import { type Provider, startProvider } from '../../tools/provider.ts'
import { randomFrom } from '../../tools/seeded-random.ts'
import { type SqsServer, startSqs } from '../../tools/sqs.ts'
import { unless } from '../common/unless.ts'
import { type Plan, WAYS, type Way } from './plan.ts'
import { SCHEMA } from './ways.ts'

/** A message that is delivered so often without an end is in an endless loop. */
export const MAX_RECEIVE_COUNT = 60

/** Of all requests to SQS. At most one happens to a request, the first that its chance favours. */
const FAULTS: readonly FaultRule[] = [
  { fault: 'duplicate', chance: 0.1 },
  { fault: 'reorder', chance: 0.1 },
  { fault: 'fail part', chance: 0.06 },
  { fault: 'drop reply', chance: 0.04 },
  { fault: 'cut reply', chance: 0.02 },
  { fault: 'reset', chance: 0.02 },
  { fault: 'server error', chance: 0.02 },
  { fault: 'throttle', chance: 0.02 },
  { fault: 'delay', chance: 0.03, upToMs: 500 },
  { fault: 'late reply', chance: 0.04, upToMs: 1_500 },
]
/**
 * In two phases most are slow, so that a process is often stopped in one, and finds another worker in it when it resumes.
 */
const SLOW = { chance: 0.1, inTwoPhases: 0.6, leastMs: 1_200, mostMs: 4_000 }

/** Identifies sessions of the harness itself. */
export const OURS = 'chaos'

export interface World {
  /** Not through the proxy. */
  readonly pool: pg.Pool
  /** Not through the proxy. */
  readonly sqs: SqsServer
  /** Through the proxy. */
  readonly url: string
  readonly database: FaultyProxy
  readonly faulty: FaultySqs
  readonly provider: Provider
  readonly queues: Readonly<Record<Way, string>>
  readonly poisonUrl: string
  /** The queue into which SQS itself moves messages after too many deliveries. */
  readonly wornOutUrls: readonly string[]
  depth(url: string): Promise<number>
  /** All that is in it, which is deleted. */
  drain(url: string): Promise<Message[]>
  calm(): void
  stop(): Promise<void>
}

export async function createWorld(plan: Plan, url: string): Promise<World> {
  const { seed, refusesStaleHandles } = plan
  const pool = new pg.Pool({ connectionString: url, application_name: OURS })
  const leasehold = new Leasehold({ pool, log: () => {} })
  await leasehold.migrate()
  await pool.query(SCHEMA)
  const { hostname, port } = new URL(url)
  const database = await startFaultyProxy({ host: hostname, port: Number(port) })
  const sqs = await startSqs({ groupsTogether: true })
  const faulty = await startFaultySqs(sqs, { seed, refusesStaleHandles, faults: FAULTS })
  const slowness = randomFrom(`${seed} slow`)
  const calm = new AbortController()
  setMaxListeners(0, calm.signal) // One per slow reply.
  const provider = await startProvider({
    answerAfter: async ({ effect }) => {
      const chance = effect.startsWith('two phases/') ? SLOW.inTwoPhases : SLOW.chance
      const [luck, howSlow] = [slowness(), slowness()]
      if (luck < chance) await unless(calm.signal, SLOW.leastMs + howSlow * (SLOW.mostMs - SLOW.leastMs))
    },
  })
  const wornOut = { standard: await sqs.createQueue('worn-out'), fifo: await sqs.createQueue('worn-out.fifo') }
  const poisonUrl = await sqs.createQueue('poison')
  const queueOf = async (way: Way): Promise<[Way, string]> => {
    const isFifo = way === 'in order'
    const dead = { url: isFifo ? wornOut.fifo : wornOut.standard, after: MAX_RECEIVE_COUNT }
    return [way, await sqs.createQueue(`${way.replaceAll(' ', '-')}${isFifo ? '.fifo' : ''}`, {}, dead)]
  }
  const queues = Object.fromEntries(await Promise.all(WAYS.map(queueOf))) as Record<Way, string>
  return {
    pool,
    sqs,
    url: database.url(url),
    database,
    faulty,
    provider,
    queues,
    poisonUrl,
    wornOutUrls: Object.values(wornOut),
    depth: async (queue) => {
      const { visible, inFlight } = await sqs.depth(queue)
      return visible + inFlight
    },
    drain: (queue) => drain(sqs, queue),
    calm: () => {
      faulty.calm()
      database.thaw()
      database.accept()
      calm.abort()
    },
    stop: async () => {
      calm.abort()
      await Promise.all([provider.stop(), faulty.stop(), database.stop()])
      await sqs.stop()
      await leasehold.close()
      await pool.end()
    },
  }
}

async function drain({ client }: SqsServer, QueueUrl: string): Promise<Message[]> {
  const all: Message[] = []
  for (;;) {
    const receive = { QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] }
    const { Messages = [] } = await client.send(new ReceiveMessageCommand(receive))
    if (Messages.length === 0) return all
    all.push(...Messages)
    const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }))
    await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }))
  }
}
