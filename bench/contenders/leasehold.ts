/** Leasehold through its public face, with its defaults but for what a style asks for. */

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Lane } from '../../src/db/lane.ts'
import { handle as attach, kind, Leasehold, queue, type WorkerOptions } from '../../src/index.ts'
import { claim, newClaimId } from '../../src/jobs/claim.ts'
import type { Input } from '../inputs.ts'
import { claimsOfASeat } from '../ring-claims.ts'
import { type Contender, type Handle, SLOW_HANDLERS, type Style } from './contender.ts'

const OPTIONS: Readonly<Record<Style, WorkerOptions>> = {
  backlog: {},
  steady: {},
  latency: {},
  'slow-handlers': { concurrency: SLOW_HANDLERS },
  'handlers-50': { concurrency: 50 },
  'one-by-one': { concurrency: 1, prefetch: 0 },
  'one-handler': { concurrency: 1 },
  'trickle-50': { concurrency: 50 },
  'trickle-10': { concurrency: 10 },
  keys: {},
  'one-key': {},
}

export const leasehold = contender('Its defaults: finished jobs are kept for 7 days.', {})

export const notKept = contender('Its defaults, but finished jobs are not kept, as graphile-worker has it.', {
  keep: false,
})

export const ordered = contender('Its defaults, in a queue that is configured as ordered.', { ordered: true })

export const fair = contender('Its defaults, in a queue that is configured as fair.', { fair: true })

export const keyed = contender('Its defaults, jobs with keys, in a queue that is not on the ring.', { keyed: true })

export const ring = contender('The same in a queue that is on the ring.', { keyed: true, ring: true })

export const orderedRing = contender('Its defaults, in a queue that is ordered and on the ring.', {
  ordered: true,
  ring: true,
})

const LEASE_MS = 60_000

interface Options {
  readonly keep?: false
  readonly ordered?: boolean
  readonly fair?: boolean
  readonly keyed?: boolean
  readonly ring?: boolean
}

function contender(
  why: string,
  { keep, ordered = false, fair = false, keyed = false, ring = false }: Options,
): Contender {
  const name = ordered ? 'ordered' : fair ? 'fair' : 'bench'
  const job = kind<Input>(name, { ...(ordered && { ordered }), ...(keep === false && { keep }) })
  const worker = { id: randomUUID(), label: 'bench' }
  const keyOf = ({ key }: Input) => (ordered || fair || keyed ? { partitionKey: key! } : {})
  return {
    version: JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version,
    why,
    enqueueBatch: 5_000,
    unfinished: 'select count(*)::int as left from leasehold.job',
    setUp: async (url) => {
      const own = new Leasehold({ connectionString: url })
      await own.migrate()
      if (ordered || fair || ring) await own.configure([queue(name, { ordered, fair, ring })])
      await own.close()
    },
    produce: async (url) => {
      const own = new Leasehold({ connectionString: url })
      return {
        enqueueMany: (inputs) =>
          own.enqueueMany(
            job,
            inputs.map((input) => ({ input, ...keyOf(input) })),
          ),
        enqueue: (input) => own.enqueue(job, input, keyOf(input)),
        enqueueWithin: (tx, input) => own.enqueue(job, input, { tx, ...keyOf(input) }),
        close: () => own.close(),
      }
    },
    claims: async (_url, db, from) => {
      const lane = new Lane(db)
      const request = { worker, kinds: [name], leaseMs: LEASE_MS }
      if (ring) return claimsOfASeat(lane, request, name, from)
      return {
        // From the beginning of the queue, and without runs: each key gives its first job.
        claim: async (limit) => {
          return (await claim(lane, { ...request, claimId: newClaimId(), limit }, { queues: [name] })).length
        },
        close: async () => {},
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
