/** BullMQ on its PostgreSQL backend. */

import { createPostgresBackend, runMigrations, withBackend } from 'bullmq'
import pg from 'pg'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

const { Queue, Worker } = withBackend(createPostgresBackend)
const QUEUE = 'bench'

const CONCURRENCY: Readonly<Record<Style, number>> = {
  throughput: 24,
  latency: 24,
  'slow-handlers': SLOW_HANDLERS,
  'one-by-one': 1,
}

export const bullmq: Contender = {
  version: pinnedVersion('bullmq'),
  why: '',
  enqueueBatch: 1_000,
  unfinished: 'select 0 as left',
  setUp: async (url) => {
    const db = new pg.Client(url)
    await db.connect()
    await runMigrations(db)
    await db.end()
  },
  produce: async (url) => {
    const queue = new Queue<Input>(QUEUE, { connection: { connectionString: url } })
    await queue.waitUntilReady()
    return {
      enqueueMany: (inputs) => queue.addBulk(inputs.map((data) => ({ name: QUEUE, data }))),
      enqueue: (input) => queue.add(QUEUE, input),
      close: () => queue.close(),
    }
  },
  work: async (url, style, handle) => {
    const worker = new Worker<Input>(QUEUE, ({ data }) => handle(data), {
      connection: { connectionString: url },
      concurrency: CONCURRENCY[style],
      removeOnComplete: { count: 0 },
    })
    await worker.waitUntilReady()
    return { stop: () => worker.close() }
  },
}
