/** The loops: jobs go in, workers claim and complete them, and a tally notices any job lost or done twice. */
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import { MANY } from '../../src/jobs/completion.ts'
import type { Lease } from '../../src/jobs/job.ts'
import type { BenchWorker, Design } from './designs/design.ts'

export const ENQUEUE_BATCH = 5_000
const IDS_BELOW = 2 ** 21
const EMPTY_WAIT_MS = 2

export class Tally {
  /** Times that each job was claimed. Ids count from 1 in a fresh database. */
  readonly #claimed = new Uint8Array(IDS_BELOW)
  claims = 0
  completed = 0
  sentAgain = 0

  claimed(leases: readonly Lease[]): void {
    for (const { jobId } of leases) {
      const id = Number(jobId)
      if (!(id < IDS_BELOW)) throw new Error(`job ${jobId}: the tally ends at ${IDS_BELOW}`)
      if (this.#claimed[id] !== 0) throw new Error(`job ${jobId} was claimed twice`)
      this.#claimed[id] = 1
    }
    this.claims += leases.length
  }

  /** After all is done, the database must agree. */
  async check(db: Client, design: Design, left = 0): Promise<void> {
    const { unfinished, finished } = await design.count(db)
    const expected = design.keepsFinished ? this.completed : 0
    if (this.claims !== this.completed || unfinished !== left || finished !== expected) {
      const seen = `${this.claims} claimed, ${this.completed} completed, ${unfinished} left, ${finished} kept`
      throw new Error(`${design.name}: ${seen}; expected ${left} left and ${expected} kept`)
    }
  }
}

/** Claims and completes on every worker at once until `count` more jobs have been claimed, and all of those completed. */
export async function drain(
  workers: readonly BenchWorker[],
  tally: Tally,
  batch: number,
  count: number,
): Promise<void> {
  const end = tally.claims + count
  await Promise.all(
    workers.map(async (worker) => {
      if (worker.turn !== undefined && batch < MANY) return turns(worker, tally, batch, end)
      while (tally.claims < end) await once(worker, tally, batch)
    }),
  )
}

/** As a worker does with small batches: each statement ends the last and claims the next. */
async function turns(worker: BenchWorker, tally: Tally, batch: number, end: number): Promise<void> {
  let held: readonly Lease[] = []
  while (tally.claims < end) {
    const next = held.length === 0 ? await worker.claim(batch) : await worker.turn!(held, batch)
    tally.completed += held.length
    tally.claimed(next)
    held = next
    if (held.length === 0) await setTimeout(EMPTY_WAIT_MS)
  }
  if (held.length > 0) tally.sentAgain += await worker.complete(held)
  tally.completed += held.length
}

async function once(worker: BenchWorker, tally: Tally, batch: number): Promise<void> {
  const leases = await worker.claim(batch)
  // Others hold the rest, or it has not been enqueued yet.
  if (leases.length === 0) return setTimeout(EMPTY_WAIT_MS)
  tally.claimed(leases)
  tally.sentAgain += await worker.complete(leases)
  tally.completed += leases.length
}

/** Plans, caches and cursors as in a worker that has run for a while. Returns the slowest first claim in ms. */
export async function warmUp(workers: readonly BenchWorker[], tally: Tally, batch: number): Promise<number> {
  let slowestMs = 0
  for (const worker of workers) {
    const began = performance.now()
    const leases = await worker.claim(batch)
    slowestMs = Math.max(slowestMs, performance.now() - began)
    tally.claimed(leases)
    await worker.complete(leases)
    tally.completed += leases.length
    // After five executions the server decides between the plans.
    for (let round = 1; round < WARM_ROUNDS; round++) await once(worker, tally, batch)
  }
  return slowestMs
}

const WARM_ROUNDS = 7

export function warmUpJobs(workers: number, batch: number): number {
  return workers * batch * WARM_ROUNDS
}

export async function enqueueAll(
  put: (inputs: readonly unknown[]) => Promise<void>,
  inputs: readonly unknown[],
): Promise<void> {
  for (let at = 0; at < inputs.length; at += ENQUEUE_BATCH) await put(inputs.slice(at, at + ENQUEUE_BATCH))
}

/** One producer, some workers, all at the same time; the producer waits while too much is outstanding. */
export async function flow(
  put: (inputs: readonly unknown[]) => Promise<void>,
  workers: readonly BenchWorker[],
  inputs: readonly unknown[],
  tally: Tally,
  { batch, backlog }: { batch: number; backlog: number },
): Promise<void> {
  const produce = async () => {
    for (let at = 0; at < inputs.length; at += batch) {
      while (at - tally.completed > backlog) await setTimeout(EMPTY_WAIT_MS)
      await put(inputs.slice(at, at + batch))
    }
  }
  await Promise.all([produce(), drain(workers, tally, batch, inputs.length)])
}
