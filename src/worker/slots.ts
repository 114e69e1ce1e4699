/**
 * The jobs this worker holds, and how many more it wants.
 *
 * A job is held from its claim until its outcome is known: it waits, runs, then reports. At most `concurrency` run. More are
 * claimed ahead only as fast as they are used up: as many as the last while has shown to be a tenth of a second's work (or
 * four round trips, where the database is far), and never more than `prefetch`. So a worker whose handlers take seconds
 * holds nothing that another could run, and one whose handlers take microseconds is never without work. What is claimed ahead
 * comes to 32 MiB of inputs at most, by the mean of late, so that large ones do not fill the memory of the process.
 *
 * A slot is one call of a handler. A batch handler is called for up to `size` jobs, which take one slot together: jobs that start
 * while its batch is open join that (batch.ts). So a worker holds up to `concurrency` times `size` jobs of such a kind.
 *
 * Those that report do not count: the next claim goes out beside their completion, not after it. When there
 * are as many of them as may wait or run, the runner starts nothing, and those that wait leave no room for a claim.
 */
import { monotonicMs } from '../core/timer.ts'
import { MAX_CLAIM } from '../jobs/claim.ts'
import { Batch } from './batch.ts'
import type { Handler } from './handler.ts'
import type { HeldJob } from './job.ts'
import { type ClaimDemand, type KindSlots, namesOf, noneOf } from './kind-slots.ts'
import { Pace } from './pace.ts'

/** The mean time of a handler is that of about so many jobs. */
const MEAN_OF = 32

export class Slots {
  readonly #concurrency: number
  readonly #prefetch: number
  readonly #kinds: readonly KindSlots[]
  readonly #byName: ReadonlyMap<string, KindSlots>
  /** Jobs of one call at most, over all kinds. */
  readonly #largestBatch: number
  readonly #jobs = new Set<HeldJob>()
  /** Calls of handlers: slots in use. */
  #calls = 0
  /** Jobs in these calls. */
  #running = 0
  #waiting = 0
  /** Jobs of runs, behind another. */
  #behind = 0
  #sequence = 0
  readonly #pace = new Pace()
  readonly #everyone: Pick<ClaimDemand, 'kinds' | 'queues'>

  /** The handler of a batch has returned after its jobs had ended, so a slot is free. */
  onCallEnded: () => void = () => {}

  constructor(handlers: ReadonlyMap<string, Handler>, concurrency: number, prefetch: number) {
    this.#concurrency = concurrency
    this.#prefetch = prefetch
    this.#byName = new Map([...handlers].map(([name, handler]) => [name, noneOf(handler)]))
    this.#kinds = [...this.#byName.values()]
    this.#largestBatch = Math.max(...this.#kinds.map(({ handler }) => handler.size))
    this.#everyone = namesOf(this.#kinds)
  }

  /** Jobs that wait or run at most. As many again may report before no more are started. */
  get capacity(): number {
    return this.atOnce + this.#prefetch
  }

  /** Jobs that may run at a time. */
  get atOnce(): number {
    return this.#concurrency * this.#largestBatch
  }

  /** When the last claim was answered. */
  claimedAt: number | undefined

  get held(): number {
    return this.#jobs.size
  }

  /** All that are held, in one of these states. */
  jobs(...states: HeldJob['state'][]): HeldJob[] {
    return [...this.#jobs].filter(({ state }) => states.includes(state))
  }

  /** No kind has a smaller limit of its own. */
  get smallestConcurrency(): number {
    return Math.min(...this.#kinds.map(({ handler }) => handler.concurrency))
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#waiting
  }

  /** What a handler takes by the mean of late, of the kind whose handlers take the least. 0: none has ended. */
  get handlerMs(): number {
    const known = this.#kinds.filter(({ ended }) => ended > 0)
    return known.length === 0 ? 0 : Math.min(...known.map(({ handlerMs }) => handlerMs))
  }

  /** How long the last claim took, from sending to its answer. */
  noteRoundTrip(ms: number): void {
    this.#pace.roundTripMs = ms
    this.claimedAt = monotonicMs()
  }

  /** Holds a job of a run until it is its turn. It takes no slot meanwhile. */
  hold(job: HeldJob): void {
    job.state = 'behind'
    this.#behind++
    this.#jobs.add(job)
  }

  /** Jobs of a run are held behind another. */
  get holdsRuns(): boolean {
    return this.#behind > 0
  }

  add(job: HeldJob): void {
    const slots = this.#of(job)
    if (job.state === 'behind') this.#behind--
    job.state = 'waiting'
    job.sequence = ++this.#sequence
    slots.waiting.push(job)
    slots.held++
    this.#pace.noteInput(job.claimed.payload.length)
    this.#waiting++
    this.#jobs.add(job)
  }

  /** A job waits and may find a slot, though perhaps not one of its kind. */
  get mayStart(): boolean {
    return this.#waiting > 0 && (this.#calls < this.#concurrency || this.#largestBatch > 1)
  }

  /** The job that has waited longest, of a kind that may start one. It is running from here on. */
  start(now: number): HeldJob | undefined {
    if (!this.mayStart) return undefined
    let first: KindSlots | undefined
    for (const slots of this.#kinds) {
      if (slots.head === slots.waiting.length || !this.#takesOne(slots)) continue
      if (first === undefined || slots.waiting[slots.head]!.sequence < first.waiting[first.head]!.sequence)
        first = slots
    }
    if (first === undefined) return undefined
    const job = first.waiting[first.head++]!
    // The line may never run empty, and what has left it must not be kept.
    if (first.head === first.waiting.length || first.head > 1_000) {
      first.waiting.splice(0, first.head)
      first.head = 0
    }
    this.#waiting--
    this.#running++
    first.running++
    if (first.batch?.takesMore !== true) {
      this.#calls++
      first.calls++
      first.batch = this.#newBatch(first)
    }
    first.batch?.add(job)
    job.state = 'running'
    job.startedAt = now
    return job
  }

  /** Starts the next job of its run in the call in which the one ahead has just started, if its handler takes runs. */
  startNext(ahead: HeldJob, now: number): HeldJob | undefined {
    const { next, batch, handler, claimed } = ahead
    if (next === undefined || !handler.takesRuns || batch?.takesMore !== true) return undefined
    // If one behind it kills the process, the sweep blames the first that is not recorded. That must not bury it.
    if (claimed.attempt >= claimed.maxAttempts) return undefined
    this.#behind--
    this.#running++
    const slots = this.#of(next)
    slots.held++
    slots.running++
    batch.add(next)
    next.ahead = ahead
    next.state = 'running'
    next.startedAt = now
    return next
  }

  /** A job ahead of it in the call has not succeeded: it waits behind that again, and is not started any more. */
  fallBack(job: HeldJob): void {
    const slots = this.#of(job)
    this.#running--
    slots.running--
    slots.held--
    job.state = 'behind'
    this.#behind++
    if (job.batch!.withdraw(job)) this.#endCall(slots)
  }

  /** Jobs that run, each with those behind it in its call as one. */
  get #lines(): number {
    return this.jobs('running').filter(({ ahead }) => ahead === undefined).length
  }

  #newBatch(slots: KindSlots): Batch | undefined {
    const { size, runBatch } = slots.handler
    if (runBatch === undefined) return undefined
    return new Batch(size, runBatch, () => {
      this.#endCall(slots)
      this.onCallEnded()
    })
  }

  #takesOne({ batch, calls, handler }: KindSlots): boolean {
    return batch?.takesMore === true || (this.#calls < this.#concurrency && calls < handler.concurrency)
  }

  /** Its handler has ended; the outcome is on its way. */
  ran(job: HeldJob, now = monotonicMs()): void {
    job.state = 'reporting'
    job.endedAt = now
    this.#running--
    this.#pace.ended++
    const slots = this.#of(job)
    slots.ended++
    slots.handlerMs += (now - job.startedAt! - slots.handlerMs) / Math.min(slots.ended, MEAN_OF)
    slots.running--
    if (job.batch === undefined || job.batch.leave(job)) this.#endCall(slots)
  }

  #endCall(slots: KindSlots): void {
    this.#calls--
    slots.calls--
  }

  /** Takes a job that waits out of the line, or one that is behind another out of its run. */
  withdraw(job: HeldJob): void {
    const slots = this.#of(job)
    if (job.state === 'behind') {
      this.#behind--
      job.state = 'reporting'
      slots.held++
      return
    }
    slots.waiting.splice(slots.waiting.indexOf(job, slots.head), 1)
    this.#waiting--
    job.state = 'reporting'
  }

  /** Its outcome is known, or will never be. */
  release(job: HeldJob): void {
    job.state = 'done'
    this.#jobs.delete(job)
    this.#of(job).held--
  }

  /** A job behind another that is held no more. */
  forget(job: HeldJob): void {
    if (job.state === 'behind') this.#behind--
    job.state = 'done'
    this.#jobs.delete(job)
  }

  /**
   * Jobs of one key that a claim may take: as many as it has shown to use up in a tenth of a second. Those behind the first take
   * no slot, since no other worker could run them.
   */
  get runLength(): number {
    return Math.min(1 + Math.floor(this.#pace.aheadOfEach(this.#prefetch)), MAX_CLAIM)
  }

  /** Better to wait until more slots are free than to claim a few, unless some stand idle. */
  wantsMore(): boolean {
    const isStarving = this.#waiting === 0 && this.#calls < this.#concurrency
    return isStarving || this.#waiting + this.#running <= this.#wanted() / 2
  }

  /**
   * What to claim now, if anything. A claim cannot ask for so many of this kind and so many of that, so it asks for no more
   * than the kind with the least room has. If it comes back full, `after` it the next asks for those with more room alone.
   */
  demand(after?: ClaimDemand): ClaimDemand | undefined {
    this.#pace.measure(() => this.#lines)
    if (after === undefined ? !this.wantsMore() : !after.narrowed) return undefined
    const free = Math.min(this.#wanted() - this.#waiting - this.#running, MAX_CLAIM)
    const allowance = (slots: KindSlots) => this.#allowance(slots)
    const wanted = this.#kinds.filter((slots) => allowance(slots) > (after?.limit ?? 0))
    if (free <= 0 || wanted.length === 0) return undefined
    const limit = Math.min(free, ...wanted.map(allowance))
    const names = wanted.length === this.#kinds.length ? this.#everyone : namesOf(wanted)
    return { limit, narrowed: limit < free, ...names }
  }

  /** Beside a kind with batches, one without must not be claimed as if it had them, too. */
  #allowance({ handler, held, waiting, head, running }: KindSlots): number {
    const waitOrRun = waiting.length - head + running
    // A job that reports has left its call, unless that is a batch.
    const own = handler.concurrency * handler.size - (handler.size === 1 ? waitOrRun : held)
    if (handler.size === this.#largestBatch) return own
    return Math.min(own, this.#concurrency * handler.size + Math.floor(this.#ahead()) - waitOrRun)
  }

  #wanted(): number {
    return this.atOnce + Math.floor(this.#ahead())
  }

  #ahead(): number {
    return this.#pace.ahead(this.#prefetch)
  }

  #of(job: HeldJob): KindSlots {
    return this.#byName.get(job.claimed.kind)!
  }
}
