// SQS in front of your table: a message names the row, and the row's status decides whether there is work to do.
import { GetQueueUrlCommand, SQSClient } from '@aws-sdk/client-sqs'
import { inTwoPhases, SqsConsumer, SqsPublisher } from 'leasehold/sqs'
import { statusTable } from 'leasehold/tables'
import pg from 'pg'
import { z } from 'zod'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL ?? 'postgres://localhost/postgres' })

// An emulator, such as LocalStack, if there is one.
const endpoint = process.env.SQS_ENDPOINT
const sqs = new SQSClient(endpoint === undefined ? {} : { endpoint, useQueueUrlAsEndpoint: false })
const { QueueUrl: queueUrl = '' } = await sqs.send(new GetQueueUrlCommand({ QueueName: 'summaries' }))

const summaries = statusTable('summary', { columns: ['result'] })
await pool.query(
  `create table if not exists summary (id integer primary key, status text not null default 'pending', result text)`,
)
await pool.query(summaries.sql()) // Put it into your migrations.

// The producer: first the row, then the message. If it is never sent, recovery sends it.
const publisher = new SqsPublisher(sqs, { queueUrl, body: (id) => ({ id: Number(id) }) })
await pool.query('insert into summary (id) values (1), (2) on conflict do nothing')
await publisher.publish([1, 2])

// Rows that are stuck, have failed, or were never published.
const recovery = summaries.recovery({ publish: (ids) => publisher.publish(ids), resendAfter: '30m' })

const consumer = new SqsConsumer(sqs, {
  queueUrl,
  body: z.object({ id: z.int() }),
  handle: inTwoPhases(summaries, pool, {
    id: (message) => message.body.id,
    effect: async (message, { effectKey }) => {
      // Pass effectKey on to every paid call, and the signal that comes with it.
      console.log(`summary ${message.body.id}, key ${effectKey('llm').slice(0, 8)}…`)
      return { result: 'short' }
    },
  }),
  chores: [recovery],
  pool,
})
consumer.on('handled', ({ rowId }) => console.log(`row ${rowId} is done`))

await consumer.run() // Until SIGTERM.
await pool.end()
sqs.destroy()
console.log('stopped')
