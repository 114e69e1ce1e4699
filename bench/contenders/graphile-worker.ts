/** graphile-worker with the batching that its performance page describes. Finished jobs are deleted: it keeps none. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import type { Input } from '../inputs.ts'
import { type Contender, pinnedVersion, SLOW_HANDLERS, type Style } from './contender.ts'

const LOCAL_QUEUE = 500
const CONCURRENCY = 24

const BATCHED = {
  localQueue: { size: LOCAL_QUEUE },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

const OPTIONS: Readonly<Record<Style, GraphileConfig.WorkerOptions>> = {
  throughput: { ...BATCHED, concurrentJobs: CONCURRENCY, maxPoolSize: 10 },
  'slow-handlers': {
    ...BATCHED,
    localQueue: { size: 2 * SLOW_HANDLERS },
    concurrentJobs: SLOW_HANDLERS,
    maxPoolSize: 10,
  },
  latency: { concurrentJobs: CONCURRENCY, maxPoolSize: 10 },
  'one-by-one': { concurrentJobs: 1, maxPoolSize: 10 },
}

// The documented way into a transaction of one's own.
const ADD_JOB = 'select graphile_worker.add_job($1, $2::json)'

const quiet = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(`graphile-worker: ${message}`)
})

export const graphileWorker: Contender = {
  version: pinnedVersion('graphile-worker'),
  why: '',
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
      enqueueMany: (inputs) => utils.addJobs(inputs.map((payload) => ({ identifier: 'bench', payload }))),
      enqueue: (input) => utils.addJob('bench', input),
      enqueueWithin: (tx, input) =>
        tx.query({ name: 'add_job', text: ADD_JOB, values: ['bench', JSON.stringify(input)] }),
      close: async () => utils.release(),
    }
  },
  work: async (url, style, handle) => {
    const runner = await run({
      preset: { worker: { connectionString: url, ...OPTIONS[style], logger: quiet } },
      taskList: { bench: (payload) => handle(payload as Input) },
      noHandleSignals: true,
    })
    return { stop: () => runner.stop() }
  },
}
