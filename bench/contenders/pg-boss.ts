/** pg-boss with large batches, fetched without a pause while they come back full. Finished jobs are kept. */
import { PgBoss, type WorkOptions } from 'pg-boss'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

const QUEUE = 'bench'
const WORKERS = 4
const BATCH = 500

const OPTIONS: Readonly<Record<Style, WorkOptions>> = {
  throughput: { batchSize: BATCH, localConcurrency: WORKERS, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
  'slow-handlers': {
    batchSize: SLOW_HANDLERS / 5,
    localConcurrency: 5,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
  },
  latency: { batchSize: 1, localConcurrency: 1, pollingIntervalSeconds: 0.5 },
  'one-by-one': { batchSize: 1, localConcurrency: 1, burstWhenReadyExceeds: 1, pollingIntervalSeconds: 0.5 },
}

export const pgBoss: Contender = {
  version: pinnedVersion('pg-boss'),
  why: '',
  enqueueBatch: 5_000,
  unfinished: `select count(*)::int as left from pgboss.job where name = '${QUEUE}' and state < 'completed'`,
  setUp: async (url) => {
    const boss = await start(url)
    await boss.createQueue(QUEUE, { notify: true })
    await boss.stop()
  },
  produce: async (url) => {
    const boss = await start(url)
    return {
      enqueueMany: (inputs) =>
        boss.insert(
          QUEUE,
          inputs.map((data) => ({ data })),
        ),
      enqueue: (input) => boss.send(QUEUE, input),
      enqueueWithin: (tx, input) =>
        boss.send(QUEUE, input, { db: { executeSql: (text, values) => tx.query(text, values) } }),
      close: () => boss.stop(),
    }
  },
  work: async (url, style, handle) => {
    const boss = await start(url)
    await boss.work<Input>(QUEUE, OPTIONS[style], async (jobs) => {
      await Promise.all(jobs.map(({ data }) => handle(data)))
    })
    return { stop: () => boss.stop() }
  },
}

/** Without supervision and cron, which the other contenders do not pay for in a drain either. */
async function start(connectionString: string): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString, supervise: false, schedule: false, useListenNotify: true })
  boss.on('error', (error) => console.error('pg-boss:', error))
  return boss.start()
}
