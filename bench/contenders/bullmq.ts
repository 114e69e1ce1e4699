/** BullMQ on its PostgreSQL backend. It claims and completes one job at a time; finished jobs are kept. */

import { createPostgresBackend, runMigrations, withBackend } from 'bullmq'
import pg from 'pg'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

const { Queue, Worker } = withBackend(createPostgresBackend)
const QUEUE = 'bench'

const CONCURRENCY: Readonly<Record<Style, number>> = {
  backlog: 8,
  steady: 8,
  latency: 8,
  'slow-handlers': SLOW_HANDLERS,
  'handlers-50': 50,
  'one-by-one': 1,
  'one-handler': 1,
  'trickle-50': 50,
  'trickle-10': 10,
  keys: 8,
  'one-key': 1,
}

export const bullmq: Contender = {
  version: pinnedVersion('bullmq'),
  // Tried in drains of 5,000 jobs, three rounds each: 8 at a time gave 1,880 a second, 24 1,680, 4 1,580. Larger pools and
  // removing finished jobs were tried over 1,000 jobs in one round only, and stood out by nothing.
  why:
    'Concurrency 8, its default pool of 10, finished jobs kept, as is its default. 4 and 24 at a time were slower; larger ' +
    'pools and removing finished jobs, tried in short runs only, gave nothing.',
  enqueueBatch: 1_000,
  unfinished: `select count(*)::int as left from bullmq.job where state in ('waiting', 'active')`,
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
    })
    await worker.waitUntilReady()
    return { stop: () => worker.close() }
  },
}
