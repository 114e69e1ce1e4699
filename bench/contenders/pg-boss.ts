/** pg-boss with large batches, fetched without a pause while they come back full. Finished jobs are kept. */
import { PgBoss, type WorkOptions } from 'pg-boss'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

// Tried in drains of 60,000 jobs, three rounds each. Without a partition, batches of 500 from 2, 4 and 8 workers gave 24 to
// 26 thousand a second, 4 × 1,000 28 and 30, 4 × 2,000 24. With one, 4 × 500 gave 29 and 32, 4 × 1,000 32. Slow handlers: 5
// × 100 gave 16 thousand, 10 × 50 15, 1 × 500 10.
const WORKERS = 4
const BATCH = 1_000
const FULL_BATCHES = { burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }

// Jobs that trickle in: chosen as for graphile-worker, from three windows of 6 s each in turns, on a machine that others
// used, too. Medians of the worker's side and of the start p99:
//   batches of 1, 2  at 50: 3,860, 1,232 µs and 219, 127 ms; at 10: 3,773, 2,031 µs and 72, 342 ms
// Single windows differ widely: in all seven that it had, 50 workers with batches of 1 had a p99 of 53 ms once, and of more
// than a second four times. A batch is over when its slowest job is: batches of 5 and 10, and 2 and 5 without
// notifications, fell seconds behind in the one window that each of them had, on a busier machine.
const OPTIONS: Readonly<Record<Style, WorkOptions>> = {
  backlog: { ...FULL_BATCHES, batchSize: BATCH, localConcurrency: WORKERS },
  steady: { ...FULL_BATCHES, batchSize: BATCH, localConcurrency: WORKERS },
  'slow-handlers': { ...FULL_BATCHES, batchSize: SLOW_HANDLERS / 5, localConcurrency: 5 },
  'handlers-50': { ...FULL_BATCHES, batchSize: 10, localConcurrency: 5 },
  latency: { batchSize: 1, localConcurrency: 1, pollingIntervalSeconds: 0.5 },
  // burstWhenBatchFull is ignored in batches of one; the cached count of ready jobs is what counts then.
  'trickle-50': { ...FULL_BATCHES, batchSize: 2, localConcurrency: 25 },
  'trickle-10': { batchSize: 1, localConcurrency: 10, pollingIntervalSeconds: 0.5 },
  'one-by-one': { batchSize: 1, localConcurrency: 1, burstWhenReadyExceeds: 1, pollingIntervalSeconds: 0.5 },
  'one-handler': { ...FULL_BATCHES, batchSize: BATCH, localConcurrency: 1 },
  // See pg-boss-ordered.ts.
  keys: {},
  'one-key': {},
}

/** A queue whose jobs are announced, and one whose are not: no worker waits for notifications about a backlog. */
const QUEUES: Readonly<Record<Style, string>> = {
  backlog: 'bench',
  steady: 'bench_notify',
  'slow-handlers': 'bench',
  'handlers-50': 'bench',
  latency: 'bench_notify',
  'one-by-one': 'bench',
  'one-handler': 'bench',
  'trickle-50': 'bench_notify',
  'trickle-10': 'bench_notify',
  keys: 'bench',
  'one-key': 'bench',
}

export const pgBoss: Contender = {
  version: pinnedVersion('pg-boss'),
  why:
    '4 workers with batches of 1,000, fetched without a pause while they come back full; a partition of its own for the ' +
    'queue; no supervision, no cron. Without the partition it was slower, with batches of 500 the same within the noise; ' +
    '2 and 8 workers and batches of 2,000, tried without the partition, were not faster. LISTEN/NOTIFY is on where jobs ' +
    'arrive while it works; those settings were not tuned further, but for jobs that trickle in: 25 workers with ' +
    'batches of 2 (50 at a time), 10 with batches of 1 (10 at a time). 50 with 1 cost three times as much, 5 with 2 half as ' +
    'much but started jobs far later. 12.38 could not be installed: a dependency was missing.',
  enqueueBatch: 5_000,
  unfinished: `select count(*)::int as left from pgboss.job where name in ('bench', 'bench_notify') and state < 'completed'`,
  setUp: async (url) => {
    const boss = await start(url)
    await boss.createQueue('bench', { partition: true })
    await boss.createQueue('bench_notify', { partition: true, notify: true })
    await boss.stop()
  },
  produce: async (url, style) => {
    const boss = await start(url)
    const queue = QUEUES[style]
    return {
      enqueueMany: (inputs) =>
        boss.insert(
          queue,
          inputs.map((data) => ({ data })),
        ),
      enqueue: (input) => boss.send(queue, input),
      enqueueWithin: (tx, input) =>
        boss.send(queue, input, { db: { executeSql: (text, values) => tx.query(text, values) } }),
      close: () => boss.stop(),
    }
  },
  work: async (url, style, handle) => {
    const queue = QUEUES[style]
    if (style === 'one-by-one') await countReady(url, queue)
    const boss = await start(url)
    await boss.work<Input>(queue, OPTIONS[style], async (jobs) => {
      if (style === 'one-handler') for (const { data } of jobs) await handle(data)
      else await Promise.all(jobs.map(({ data }) => handle(data)))
    })
    return { stop: () => boss.stop() }
  },
}

/** Without supervision and cron: none of the jobs needs them. */
export async function start(connectionString: string): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString, supervise: false, schedule: false, useListenNotify: true })
  boss.on('error', (error) => console.error('pg-boss:', error))
  return boss.start()
}

/** What supervision would do within a minute. A worker that starts afterwards finds the count in its cache. */
export async function countReady(url: string, queue: string): Promise<void> {
  const boss = await start(url)
  await boss.getQueueStats(queue, { force: true })
  await boss.stop()
}
