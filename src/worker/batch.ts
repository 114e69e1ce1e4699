/**
 * One call of a batch handler. Each of its jobs is started, watched, aborted and ended as if it ran alone; only the call is shared.
 *
 * The slots put jobs into the batch while they start them, until it is full or no job has joined for one turn of the event loop:
 * the runner starts jobs in turns of a few milliseconds. The call begins when every job has joined with its parsed input, or has ended without one. The slot is free when all its jobs have ended: a job ends
 * with its outcome, with its timeout, or when the worker stops, whether the handler returns or not.
 */
import type { BatchJob, HeldJob } from './job.ts'

export type RunBatch = (jobs: readonly BatchJob[], signal: AbortSignal) => unknown

/** Ends a job's part in the call. The first of these counts. */
export interface Settle {
  resolve(result: unknown): void
  reject(error: unknown): void
}

interface Joined {
  readonly job: BatchJob
  readonly settle: Settle
}

export class Batch {
  readonly #size: number
  readonly #run: RunBatch
  readonly #abort = new AbortController()
  /** Those that have not ended. */
  readonly #jobs = new Set<HeldJob>()
  readonly #joined = new Map<HeldJob, Joined>()
  #added = 0
  #addedBefore = 0
  #isOpen = true
  #isCalled = false

  constructor(size: number, run: RunBatch) {
    this.#size = size
    this.#run = run
    this.#closeSoon()
  }

  get takesMore(): boolean {
    return this.#isOpen && this.#added < this.#size
  }

  /** This job starts in here. */
  add(job: HeldJob): void {
    this.#added++
    this.#jobs.add(job)
    job.batch = this
  }

  /** The job has its input. Resolves or rejects with its part of the call. */
  join(held: HeldJob, make: (settle: Settle) => BatchJob): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const settle = { resolve, reject }
      this.#joined.set(held, { job: make(settle), settle })
      this.#callWhenComplete()
    })
  }

  /** The job has ended. Returns whether it was the last, so that the slot is free. */
  leave(held: HeldJob): boolean {
    this.#jobs.delete(held)
    if (this.#jobs.size === 0) this.#isOpen = false
    else {
      this.#callWhenComplete()
      this.aborted()
    }
    return this.#jobs.size === 0
  }

  /** A job was aborted, or has ended: those that are left may all be aborted. */
  aborted(): void {
    if (!this.#isCalled) return
    let reason: unknown
    for (const job of this.#jobs) {
      if (job.aborted === undefined) return
      reason = job.signal.reason
    }
    this.#abort.abort(reason)
  }

  #closeSoon(): void {
    setImmediate(() => {
      const isGrowing = this.takesMore && this.#added > this.#addedBefore
      this.#addedBefore = this.#added
      if (isGrowing) return this.#closeSoon()
      this.#isOpen = false
      this.#callWhenComplete()
    })
  }

  #callWhenComplete(): void {
    if (this.#isOpen || this.#isCalled) return
    for (const job of this.#jobs) if (!this.#joined.has(job)) return
    this.#isCalled = true
    const joined = [...this.#jobs].map((job) => this.#joined.get(job)!)
    if (joined.length === 0) return
    this.aborted()
    void this.#call(joined)
  }

  async #call(joined: readonly Joined[]): Promise<void> {
    try {
      const returned = await this.#run(
        joined.map(({ job }) => job),
        this.#abort.signal,
      )
      if (returned !== undefined) throw new TypeError(RETURNS_NOTHING)
      for (const { settle } of joined) settle.resolve(undefined)
    } catch (error) {
      for (const { settle } of joined) settle.reject(error)
    }
  }
}

const RETURNS_NOTHING =
  'A batch handler returned a value, which is no outcome of a job. Call job.succeed(result) or job.fail(error), and return nothing.'
