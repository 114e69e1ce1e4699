// One process of the crew: a consumer for each way of handling, and a worker for the jobs and for recovery. Its first
// argument configures it; it prints a line of JSON for each event, and ends on SIGTERM, or with its parent.
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { handle, Leasehold } from '../../src/index.ts'
import { type SqsClient, SqsConsumer, type SqsConsumerEvents, SqsPublisher } from '../../src/sqs/index.ts'
import { randomFrom } from '../../tools/seeded-random.ts'
import { WAYS, type Way } from './plan.ts'
import { body, handleOf, jobOf, type Surroundings, TABLES, task } from './ways.ts'

export interface Orders {
  readonly url: string
  readonly sqs: SQSClientConfig
  readonly queues: Readonly<Record<Way, string>>
  readonly poisonUrl: string
  readonly provider: string
  readonly seed: number
  readonly visibility: '1s' | '2s'
  /** Each queue is handled in some way that is wrong. */
  readonly broken: boolean
  /** Handlers do not fail. */
  readonly calm: boolean
}

/** Shorter than slow handlers, so that some messages are returned. */
const GRACE = '500ms'
/** Wrong handlers fail more often, so that the damage shows soon. */
const FAILS = { rightly: 0.06, wrongly: 0.2 }

const EVENTS: readonly (keyof SqsConsumerEvents)[] = [
  'handled',
  'already_handled',
  'failed',
  'dead_letter',
  'returned',
  'redelivered',
  'extended',
  'expired',
  'problem',
]

const orders = JSON.parse(process.argv[2]!) as Orders
const { url, sqs, queues, poisonUrl, provider, seed, visibility, broken } = orders
let { calm } = orders
process.on('message', () => {
  calm = true
})
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
process.channel!.unref()

const pool = new pg.Pool({ connectionString: url, max: 25 })
const leasehold = new Leasehold({ pool, prepare: false, log: () => {} })
const client = new SQSClient(sqs)
const mood = (key: string) => {
  if (!calm && randomFrom(`${seed} ${key}`)() < (broken ? FAILS.wrongly : FAILS.rightly)) throw new Error('on purpose')
}
const surroundings: Surroundings = { pool, leasehold, provider, mood, broken }

const consumers = WAYS.map((way) => {
  const consumer = new SqsConsumer(broken && way === 'into a queue' ? deletingFirst(client) : client, {
    queueUrl: queues[way],
    deadLetterQueueUrl: poisonUrl,
    body,
    visibility,
    grace: GRACE,
    backoff: { first: '1s', max: '2s' },
    handle: handleOf(way, surroundings),
    log: () => {},
  })
  for (const name of EVENTS) consumer.on(name, (event?: object) => print(name, { way, ...brief(event) }))
  return consumer
})

const chores = (['two phases', 'one update'] as const).map((way) => {
  const publisher = new SqsPublisher(client, {
    queueUrl: queues[way],
    body: (id) => ({ id: Number(id), type: 'task' }),
  })
  return TABLES[way].recovery({ publish: (ids) => publisher.publish(ids), resendAfter: '8s', every: '1s' })
})
const worker = leasehold.worker([handle(task, jobOf(surroundings))], {
  lease: '3s',
  sweep: '1s',
  poll: '500ms',
  grace: GRACE,
  chores,
})
worker.on('chore', ({ counts }) => print('chore', counts))

const running = Promise.all([worker.run(), ...consumers.map((consumer) => consumer.run())])
print('ready')
await running
client.destroy()
await leasehold.close()
await pool.end()

function brief(event: object = {}): object {
  const { reason, receiveCount, doing } = event as { reason?: string; receiveCount?: number; doing?: string }
  return { reason, receiveCount, doing }
}

/** A common mistake: a message is deleted as soon as it is received. */
function deletingFirst({ send }: SQSClient): SqsClient {
  const sendFirst = async (command: unknown, options: unknown) => {
    const answer = await (send as (...args: unknown[]) => Promise<unknown>).call(client, command, options)
    if (!(command instanceof ReceiveMessageCommand)) return answer
    const { Messages = [] } = answer as { Messages?: { ReceiptHandle: string }[] }
    const { QueueUrl } = command.input
    for (const { ReceiptHandle } of Messages)
      await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle })).catch(() => {})
    return answer
  }
  return { send: sendFirst } as SqsClient
}

function print(event: string, details: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...details })}\n`)
}
