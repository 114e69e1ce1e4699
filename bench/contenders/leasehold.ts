/** Leasehold through its public face, with its defaults but for what a style asks for. */
import { readFileSync } from 'node:fs'
import { handle as attach, kind, Leasehold, type WorkerOptions } from '../../src/index.ts'
import type { Input } from '../inputs.ts'
import { type Contender, type Handle, SLOW_HANDLERS, type Style } from './contender.ts'

const OPTIONS: Readonly<Record<Style, WorkerOptions>> = {
  backlog: {},
  steady: {},
  latency: {},
  'slow-handlers': { concurrency: SLOW_HANDLERS },
  'handlers-50': { concurrency: 50 },
  'one-by-one': { concurrency: 1, prefetch: 0 },
  'trickle-50': { concurrency: 50 },
  'trickle-10': { concurrency: 10 },
}

export const leasehold = contender('Its defaults: finished jobs are kept for 7 days.', {})

export const notKept = contender('Its defaults, but finished jobs are not kept, as graphile-worker has it.', {
  keep: false,
})

function contender(why: string, options: { keep?: false }): Contender {
  const job = kind<Input>('bench', options)
  return {
    version: JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version,
    why,
    enqueueBatch: 5_000,
    unfinished: 'select count(*)::int as left from leasehold.job',
    setUp: async (url) => {
      const own = new Leasehold({ connectionString: url })
      await own.migrate()
      await own.close()
    },
    produce: async (url) => {
      const own = new Leasehold({ connectionString: url })
      return {
        enqueueMany: (inputs) =>
          own.enqueueMany(
            job,
            inputs.map((input) => ({ input })),
          ),
        enqueue: (input) => own.enqueue(job, input),
        enqueueWithin: (tx, input) => own.enqueue(job, input, { tx }),
        close: () => own.close(),
      }
    },
    work: async (url, style, handle) => {
      const own = new Leasehold({ connectionString: url })
      const worker = own.worker([attach(job, returningNothing(handle))], { ...OPTIONS[style], signals: [] })
      const running = worker.run()
      return {
        stop: async () => {
          await worker.stop()
          await running
          await own.close()
        },
      }
    },
  }
}

function returningNothing(handle: Handle) {
  return ({ input }: { readonly input: Input }) => handle(input)
}
