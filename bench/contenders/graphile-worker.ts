/** graphile-worker with the batching that its performance page describes. Finished jobs are deleted: it keeps none. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

// Tried in drains of 60,000 jobs, three rounds each, three times over: 24 at a time with a local queue of 500 gave 30 to 34
// thousand a second, 100 at a time 29 to 30, a local queue of 2,000 28 to 30. These lie within each other's spread. Only in
// shorter runs of 40,000, two rounds, on a busy machine: 10 and 50 at a time, local queues of 200 and 1,000 and a pool of 26
// stood out by nothing, 100 at a time led by a sixth (not seen again), and a completion delay of 5 ms was slower.
const LOCAL_QUEUE = 500
const CONCURRENCY = 24
const POOL = 10
const SOON_MS = 5

const BATCHED = {
  localQueue: { size: LOCAL_QUEUE },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

// Jobs that trickle in: windows of 6 s, settings taking turns, three windows each, on a machine that others used, too. Chosen
// was the cheapest worker's side among those whose start p99 is at most twice the best; all figures are medians.
//   completion delay 0, 5, 20 ms  at 50: 851, 752, 753 µs and 39, 77, 251 ms; at 10: 1,641, 1,609, 1,549 µs and 51, 58, 57 ms
//   local queue 1, 2, 4 times     at 50: 985, 1,003, 972 µs and 256, 41, 26 ms; at 10: 1,607, 1,616, 1,619 µs and 51, 49, 50 ms
// Sizes 2 and 4 are within 3 % of each other, so 2 it is for both. Two windows for each size before that, on a machine so busy
// that jobs waited for seconds, are not counted, nor are two for each delay that were not in turns.
function trickle(atATime: number, completeJobBatchDelay: number): GraphileConfig.WorkerOptions {
  const localQueue = { size: 2 * atATime }
  return { ...BATCHED, completeJobBatchDelay, localQueue, concurrentJobs: atATime, maxPoolSize: POOL }
}

const OPTIONS: Readonly<Record<Style, GraphileConfig.WorkerOptions>> = {
  backlog: { ...BATCHED, concurrentJobs: CONCURRENCY, maxPoolSize: POOL },
  steady: { ...BATCHED, concurrentJobs: CONCURRENCY, maxPoolSize: POOL },
  'slow-handlers': {
    ...BATCHED,
    localQueue: { size: 2 * SLOW_HANDLERS },
    concurrentJobs: SLOW_HANDLERS,
    maxPoolSize: POOL,
  },
  'handlers-50': { ...BATCHED, concurrentJobs: 50, maxPoolSize: POOL },
  latency: { concurrentJobs: CONCURRENCY, maxPoolSize: POOL },
  'one-by-one': { concurrentJobs: 1, maxPoolSize: POOL },
  'one-handler': { ...BATCHED, concurrentJobs: 1, maxPoolSize: POOL },
  'trickle-50': trickle(50, 5),
  'trickle-10': trickle(10, 20),
  keys: { ...BATCHED, concurrentJobs: CONCURRENCY, maxPoolSize: POOL, pollInterval: SOON_MS },
  // One job at a time is all there can be, and a local queue would hold no more. One connection listens, and the other must
  // be the only one: the next job is asked for while the completion is on its way, and then not found until the next poll.
  'one-key': { concurrentJobs: 1, maxPoolSize: 2, pollInterval: SOON_MS },
}

// The documented way into a transaction of one's own.
const ADD_JOB = 'select graphile_worker.add_job($1, $2::json)'

const quiet = new Logger(() => (level, message) => {
  if (level === 'error') console.error(`graphile-worker: ${message}`)
})

export const graphileWorker = contender(
  'Local queue 500, completions and failures batched with a delay of 0 ms, 24 jobs at a time, pool of 10. 100 at a time ' +
    'and a local queue of 2,000 drained as fast within the noise; a delay of 5 ms was slower. For latency without the ' +
    'local queue: its median was the same, its p99 lower. The settings for slow handlers were not tuned. Where jobs ' +
    'trickle in: a local queue of twice the jobs at a time, completions delayed by 5 ms (50 at a time) or 20 ms (10). A ' +
    'delay of 0 cost 13 and 6 % more; once and four times as many in the local queue cost the same within 3 %. Three ' +
    'windows each, on a busy machine.',
  OPTIONS,
)

export const noLocalQueue = contender(
  'Without the local queue and without batches of completions, as is its default.',
  {
    ...OPTIONS,
    'trickle-50': { concurrentJobs: 50, maxPoolSize: POOL },
    'trickle-10': { concurrentJobs: 10, maxPoolSize: POOL },
  },
)

export const ordered = contender(
  'Named queues, one for each key. Many keys: as for a backlog, and a poll every 5 ms. One key: without the local queue, one ' +
    'job at a time, one connection besides the one that listens, so that a completion is there before the next job is asked for. ' +
    'Each job has a runAt of its own, a millisecond after the one before: jobs of one addJobs() have the same otherwise, and start in any order.',
  OPTIONS,
  ({ key, orderId }) => ({ queueName: key!, runAt: new Date(orderId) }),
)

function contender(
  why: string,
  options: typeof OPTIONS,
  spec: (input: Input) => { queueName?: string; runAt?: Date } = () => ({}),
): Contender {
  return {
    version: pinnedVersion('graphile-worker'),
    why,
    enqueueBatch: 5_000,
    unfinished: 'select count(*)::int as left from graphile_worker._private_jobs',
    setUp: async (url) => {
      const utils = await makeWorkerUtils({ connectionString: url, logger: quiet })
      await utils.migrate()
      await utils.release()
    },
    produce: async (url) => {
      const utils = await makeWorkerUtils({ connectionString: url, logger: quiet })
      return {
        enqueueMany: (inputs) =>
          utils.addJobs(inputs.map((payload) => ({ identifier: 'bench', payload, ...spec(payload) }))),
        enqueue: (input) => utils.addJob('bench', input, spec(input)),
        enqueueWithin: (tx, input) =>
          tx.query({ name: 'add_job', text: ADD_JOB, values: ['bench', JSON.stringify(input)] }),
        close: async () => utils.release(),
      }
    },
    work: async (url, style, handle) => {
      const runner = await run({
        preset: { worker: { connectionString: url, ...options[style], logger: quiet } },
        taskList: { bench: (payload) => handle(payload as Input) },
        noHandleSignals: true,
      })
      return { stop: () => runner.stop() }
    },
  }
}
