/** pg-boss with its policy `key_strict_fifo`: the key is the singletonKey. Finished jobs are kept. */
import type { WorkOptions } from 'pg-boss'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, type Style } from './contender.ts'
import { countReady, start } from './pg-boss.ts'

const QUEUE = 'bench_fifo'

// A fetch takes the first job of each key that is free, so a batch is full as long as there are more free keys than it holds.
const MANY_KEYS: WorkOptions = {
  batchSize: 500,
  localConcurrency: 2,
  burstWhenBatchFull: true,
  burstWhenReadyExceeds: 1,
  pollingIntervalSeconds: 0.5,
}
// One job is all that a fetch can take. It is fetched again at once while the cached count shows jobs.
const ONE_KEY: WorkOptions = {
  batchSize: 1,
  localConcurrency: 1,
  burstWhenReadyExceeds: 1,
  pollingIntervalSeconds: 0.5,
}

export const pgBossOrdered: Contender = {
  version: pinnedVersion('pg-boss'),
  why:
    'The policy key_strict_fifo, a partition of its own for the queue, no supervision, no cron. Many keys: 2 workers with ' +
    'batches of 500. One key: one worker with batches of one. Both fetch without a pause while jobs are ready. Ids ' +
    'ascend: of jobs that were inserted by one call the lowest id starts first, and its own ids are random.',
  enqueueBatch: 5_000,
  unfinished: `select count(*)::int as left from pgboss.job where name = '${QUEUE}' and state < 'completed'`,
  setUp: async (url) => {
    const boss = await start(url)
    await boss.createQueue(QUEUE, { partition: true, policy: 'key_strict_fifo' })
    await boss.stop()
  },
  produce: async (url) => {
    const boss = await start(url)
    return {
      enqueueMany: (inputs) =>
        boss.insert(
          QUEUE,
          inputs.map((data) => ({ data, id: ascendingId(data), singletonKey: data.key! })),
        ),
      enqueue: (input) => boss.send(QUEUE, input, { id: ascendingId(input), singletonKey: input.key! }),
      close: () => boss.stop(),
    }
  },
  claims: async (url, db) => {
    const boss = await start(url)
    const within = { executeSql: (text: string, values?: unknown[]) => db.query(text, values) }
    return {
      claim: async (limit) => (await boss.fetch(QUEUE, { batchSize: limit, db: within })).length,
      close: () => boss.stop(),
    }
  },
  work: async (url, style: Style, handle) => {
    await countReady(url, QUEUE)
    const boss = await start(url)
    await boss.work<Input>(QUEUE, style === 'one-key' ? ONE_KEY : MANY_KEYS, async (jobs) => {
      await Promise.all(jobs.map(({ data }) => handle(data)))
    })
    return { stop: () => boss.stop() }
  },
}

function ascendingId({ orderId }: Input): string {
  return `00000000-0000-4000-8000-${orderId.toString(16).padStart(12, '0')}`
}
