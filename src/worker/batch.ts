/**
 * One call of a batch handler. Each of its jobs is started, watched, aborted and ended as if it ran alone; only the call is shared.
 *
 * The slots put jobs into the batch while they start them, until it is full or no job has joined for one turn of the event loop:
 * the runner starts jobs in turns of a few milliseconds. The call begins when every job has joined with its parsed input, or has ended without one. The slot is free when
 * all its jobs have ended and the handler has returned. It does not wait for a handler whose jobs were ended by their timeout or by
 * a stop: that may never return.
 */
import type { BatchJob, HeldJob } from './job.ts'

export type RunBatch = (jobs: readonly BatchJob[], signal: AbortSignal) => unknown

/** Ends a job's part in the call. The first of these counts. */
export interface Settle {
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** A job that has joined: the promise of its part in the call. One object, since there is one for every job of every batch. */
class Joined implements Settle {
  readonly job: BatchJob
  readonly #resolve: (result: unknown) => void
  readonly #reject: (error: unknown) => void
  hasOutcome = false

  constructor(
    make: (settle: Settle) => BatchJob,
    resolve: (result: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.#resolve = resolve
    this.#reject = reject
    this.job = make(this)
  }

  resolve(result: unknown): void {
    this.hasOutcome = true
    this.#resolve(result)
  }

  reject(error: unknown): void {
    this.hasOutcome = true
    this.#reject(error)
  }
}

export class Batch {
  readonly #size: number
  readonly #run: RunBatch
  /** Called if the slot becomes free after the last job has ended. */
  readonly #onFree: () => void
  readonly #abort = new AbortController()
  /** Those that have not ended. */
  readonly #jobs = new Set<HeldJob>()
  readonly #joined = new Map<HeldJob, Joined>()
  /** How many of those that have not ended have not joined either. */
  #missing = 0
  #added = 0
  #addedBefore = 0
  #isOpen = true
  #isCalled = false
  #hasReturned = false
  #isAbandoned = false
  #isFree = false

  constructor(size: number, run: RunBatch, onFree: () => void) {
    this.#size = size
    this.#run = run
    this.#onFree = onFree
    this.#closeSoon()
  }

  get takesMore(): boolean {
    return this.#isOpen && this.#added < this.#size
  }

  /** This job starts in here. */
  add(job: HeldJob): void {
    this.#added++
    this.#missing++
    this.#jobs.add(job)
    job.batch = this
  }

  /** The job has its input. Resolves or rejects with its part of the call. */
  join(held: HeldJob, make: (settle: Settle) => BatchJob): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#jobs.has(held)) this.#missing--
      this.#joined.set(held, new Joined(make, resolve, reject))
      this.#callWhenComplete()
    })
  }

  /** The job has ended. Returns whether the slot is free now. */
  leave(held: HeldJob): boolean {
    if (!this.#jobs.delete(held)) return false // Its outcome was kept when it left.
    const joined = this.#joined.get(held)
    if (joined === undefined) this.#missing--
    else if (!joined.hasOutcome) this.#isAbandoned = true
    if (this.#jobs.size === 0) this.#isOpen = false
    else {
      this.#callWhenComplete()
      this.aborted()
    }
    return this.#becomesFree()
  }

  /** The job goes back behind one that has not succeeded; the call goes on without it. Returns whether the slot is free now. */
  withdraw(held: HeldJob): boolean {
    const joined = this.#joined.get(held)
    if (joined !== undefined) joined.hasOutcome = true
    return this.leave(held)
  }

  #becomesFree(): boolean {
    const goesOn = this.#isCalled && !this.#hasReturned && !this.#isAbandoned
    if (this.#jobs.size > 0 || goesOn || this.#isFree) return false
    this.#isFree = true
    return true
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
    if (this.#isOpen || this.#isCalled || this.#missing > 0) return
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
      for (const one of joined) one.resolve(undefined)
    } catch (error) {
      for (const one of joined) one.reject(error)
    }
    this.#hasReturned = true
    if (this.#becomesFree()) this.#onFree()
  }
}

export const RETURNS_NOTHING =
  'A batch handler returned a value, which is no outcome of a job. Call job.succeed(result) or job.fail(error), and return nothing.'
