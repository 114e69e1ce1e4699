// A consumer process of this demo: `node --import tsx demo/sqs/consumer.ts "consumer 2"`, started by crew.ts.
import { once } from 'node:events'
import { SQSClient } from '@aws-sdk/client-sqs'
import pg from 'pg'
import { SqsConsumer, SqsPublisher } from '../../src/sqs/index.ts'
import { askLlm, RECOVERY_EVERY_MS, summaries } from '../summary.ts'
import { type Body, body, guarded, unguarded } from './handlers.ts'
import type { FromConsumer, Orders } from './messages.ts'
import { CONCURRENCY, RESEND_AFTER, VISIBILITY } from './scale.ts'

// The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
process.on('disconnect', () => process.exit())
// Ctrl-C is for the demo, which then ends us.
process.on('SIGINT', () => {})

const [orders] = (await once(process, 'message')) as [Orders]
const { databaseUrl, sqs, queueUrl, deadLetterQueueUrl, llm, isUnguarded } = orders
const pool = new pg.Pool({ connectionString: databaseUrl })
const client = new SQSClient(sqs)
const ask = (id: number, key?: string) => {
  tell({ type: 'asking', id })
  return askLlm(llm, id, key)
}
const publisher = new SqsPublisher(client, { queueUrl, body: (id) => ({ id: Number(id) }) })
const publish = (ids: readonly string[]) => publisher.publish(ids)
const consumer = new SqsConsumer<Body>(client, {
  queueUrl,
  deadLetterQueueUrl,
  body,
  concurrency: CONCURRENCY,
  visibility: VISIBILITY,
  signals: ['SIGTERM'],
  chores: [summaries.recovery({ publish, resendAfter: RESEND_AFTER, every: RECOVERY_EVERY_MS })],
  pool,
  handle: isUnguarded ? unguarded(pool, ask) : guarded(pool, ask),
})
for (const outcome of ['handled', 'already_handled', 'failed', 'dead_letter', 'returned'] as const) {
  consumer.on(outcome, (message: { rowId?: string; receiveCount: number; reason?: string }) => {
    const { rowId, receiveCount, reason } = message
    tell({ type: 'settled', outcome, id: rowId === undefined ? undefined : Number(rowId), receiveCount, reason })
  })
}

tell({ type: 'ready' })
await consumer.run()
client.destroy()
await pool.end()
process.disconnect?.()

function tell(message: FromConsumer): void {
  if (process.connected) process.send?.(message)
}
