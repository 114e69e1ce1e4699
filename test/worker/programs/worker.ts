// A worker process for tests: its jobs' inputs control it, it prints a line of JSON for each event, and waiting handlers go
// on at its parent's command.
import { readSync } from 'node:fs'
import pg from 'pg'
import {
  handle,
  type Job,
  Leasehold,
  type WorkerEvents,
  type WorkerOptions,
  withTransaction,
} from '../../../src/index.ts'
import { callProvider } from '../../support/provider.ts'
import { type Act, type Step, type Work, workOf } from './jobs.ts'

export interface WorkerProgram {
  readonly url: string
  readonly kinds: readonly string[]
  readonly options: WorkerOptions
  /** Kills the process at this event. */
  readonly dieWhen?: keyof WorkerEvents
}

const EVENTS: readonly (keyof WorkerEvents)[] = [
  'started',
  'completed',
  'retrying',
  'dead_letter',
  'snoozed',
  'cancelled',
  'released',
  'aborted',
  'refused',
  'unknown',
  'recovered',
  'wakeup',
  'problem',
  'stopping',
  'stopped',
]

const { url, kinds, options, dieWhen } = JSON.parse(process.env.LEASEHOLD_TEST_WORKER!) as WorkerProgram
const leasehold = new Leasehold({ connectionString: url })
const go = new Promise<void>((resolve) => process.once('message', () => resolve()))
process.on('disconnect', die) // The test is gone.
// Output is written before the next line of code runs, also when the test is too busy to read and a handler blocks.
const { _handle: pipe } = process.stdout as unknown as { _handle?: { setBlocking?(blocking: boolean): void } }
pipe?.setBlocking?.(true)
process.channel!.unref()

const acts: Record<Act, (job: Job<Work>) => unknown> = {
  nothing: () => {},
  wait: async () => {
    process.channel!.ref() // A handler that waits for something keeps its process alive.
    await go
    process.channel!.unref()
  },
  // The parent's command is the end of standard input.
  'block once': ({ generation }) => generation === 1 && readSync(0, Buffer.alloc(1)),
  'heed once': async ({ generation, signal }) => {
    if (generation > 1) return
    await aborted(signal)
    throw signal.reason
  },
  'defy once': ({ generation, signal }) => generation === 1 && aborted(signal),
  die,
  'die once': ({ generation }) => generation === 1 && die(),
  'effect, die once': async ({ id, generation }) => {
    const client = new pg.Client(url)
    await client.connect()
    await client.query('insert into effect values ($1, $2)', [id, generation])
    await client.end()
    if (generation === 1) die()
  },
  once: async (job) => {
    const { provider, ifUnknown = 'stop' } = job.input.once!
    dieAt(job, 'before begin')
    const charge = async () => {
      dieAt(job, 'after begin')
      // Only ifUnknown: 'retry' needs a key.
      const key = ifUnknown === 'retry' ? job.effectKey('charge') : undefined
      const answer = await callProvider(provider!, 'charge', key)
      dieAt(job, 'after effect')
      return answer
    }
    print('charged', { answer: await job.once('charge', charge, { ifUnknown }) })
    dieAt(job, 'after done')
  },
  'once in a transaction': async (job) => {
    const client = new pg.Client(url)
    await client.connect()
    await withTransaction(client, async (tx) => {
      const receipt = async () => {
        await tx.query('insert into effect values ($1, $2)', [job.id, job.generation])
        dieAt(job, 'after effect')
      }
      await job.once('receipt', receipt, { tx })
      dieAt(job, 'before commit')
    })
    dieAt(job, 'after done')
    await client.end()
  },
  'fail once': ({ attempt }) => {
    if (attempt === 1) throw new Error('on purpose')
  },
  'enqueue for later': async ({ kind }) => {
    await leasehold.enqueue(workOf(kind), { act: 'nothing' }, { delay: '30m' })
  },
}

async function run(job: Job<Work>): Promise<{ by: string }> {
  await acts[job.input.act](job)
  print('handled', { jobId: job.id, generation: job.generation, aborted: job.signal.aborted })
  return { by: worker.identity.id }
}

const worker = leasehold.worker(
  kinds.map((name) => handle(workOf(name), run)),
  options,
)
for (const name of EVENTS) {
  worker.on(name, (event?: object) => {
    print(name, event)
    if (name === dieWhen) die()
  })
}
print('ready', { workerId: worker.identity.id, now: Date.now() })
await worker.run()
await leasehold.close()
print('left')

function dieAt({ generation, input }: Job<Work>, step: Step): void {
  if (generation === 1 && input.once!.dieAt === step) die()
}

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal)
    signal.addEventListener('abort', resolve)
  })
}

function print(event: string, details: object = {}): void {
  const brief = (_: string, value: unknown) =>
    value instanceof Error ? { name: value.name, code: (value as { code?: string }).code } : value
  process.stdout.write(`${JSON.stringify({ event, ...details }, brief)}\n`)
}
