// A consumer in a process of its own, which may be killed on the way. Its first argument configures it, and it prints a line
// of JSON for each event.
import { SQSClient, type SQSClientConfig } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { Leasehold } from '../../../src/index.ts'
import { SqsConsumer, type SqsConsumerEvents } from '../../../src/sqs/index.ts'
import { through } from '../scene.ts'
import { type Body, handleOf, type Place, type Way } from './ways.ts'

export interface Orders {
  readonly url: string
  readonly sqs: SQSClientConfig
  readonly queueUrl: string
  readonly deadLetterQueueUrl?: string
  readonly provider: string
  readonly way: Way
  readonly keyed?: boolean
  readonly diesAt?: Place
  readonly options?: { readonly visibility?: `${number}s`; readonly grace?: number; readonly concurrency?: number }
}

const EVENTS: readonly (keyof SqsConsumerEvents)[] = [
  'handled',
  'already_handled',
  'failed',
  'dead_letter',
  'returned',
  'expired',
  'problem',
  'stopped',
]

const orders = JSON.parse(process.argv[2]!) as Orders
const { url, sqs, queueUrl, deadLetterQueueUrl, provider, way, keyed = false, diesAt, options = {} } = orders
process.on('disconnect', die) // The test is gone.
process.channel!.unref()
const pool = new pg.Pool({ connectionString: url, max: 10 })
const leasehold = new Leasehold({ pool })
const client = new SQSClient(sqs)
const dying = through(client, async (name, send) => {
  if (name !== 'DeleteMessageBatch') return send()
  at('before the delete')
  const answer = await send()
  at('at the delete')
  return answer
})
const consumer = new SqsConsumer<Body>(dying, {
  queueUrl,
  deadLetterQueueUrl,
  ...options,
  handle: handleOf(way, { pool, leasehold, provider, keyed, at }),
})
for (const name of EVENTS) consumer.on(name, (event?: object) => print(name, event))
print('ready')
await consumer.run()
client.destroy()
await leasehold.close()
await pool.end()

function at(place: Place): void {
  if (place === diesAt) die()
}

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}

function print(event: string, details: object = {}): void {
  process.stdout.write(`${JSON.stringify({ event, ...details })}\n`)
}
