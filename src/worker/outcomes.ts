/**
 * Outcomes on their way to the database.
 *
 * They are sent in batches that clock themselves: one is under way at a time, and what ends meanwhile is the next. A lone
 * job is reported at once; under load batches grow by themselves, with no timer. An outcome leaves this class when it is
 * known: recorded, refused, or recorded earlier although the reply was lost. A claim may go along with completions (turns.ts).
 *
 * After a failure the batch is sent again, since every outcome carries its fence and a second one changes nothing. One that
 * is then refused may have been recorded the first time, so the database is asked (decisions/0009). A batch that the server
 * refuses for what is in it is sent one by one, so that one bad outcome does not hold up the others.
 */
import { describeError } from '../core/error-description.ts'
import type { Lane } from '../db/lane.ts'
import { isAboutTheData } from '../db/refusal.ts'
import { MANY, type NotWritten } from '../jobs/completion.ts'
import type { ClaimedJob, Lease, Worker } from '../jobs/job.ts'
import { forgive, type Recorded, recorded, settle } from '../jobs/outcome.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'
import type { HeldJob } from './job.ts'
import {
  backoffOf,
  finder,
  heldUntil,
  learn,
  type Outcome,
  type PendingOutcome,
  type RecordedAs,
  render,
  rolledBack,
  toCompletion,
  toSettlement,
} from './pending-outcome.ts'
import type { Turns } from './turns.ts'

const BATCH = 1_000
/** A batch is rendered and sent in one go, and nothing else happens in this process meanwhile. */
const BATCH_BYTES = 2 ** 22
const BUSY_AGAIN_MS = 10
/** Results on their way at most, roughly: a database slower than the handlers must not fill the memory. */
const BYTES_AT_MOST = 2 ** 26

export interface OutcomeEvents extends LoopEvents {
  known(report: PendingOutcome, known: RecordedAs): void
  /** Jobs of ordered queues can be claimed now, since others have ended. */
  letIn(jobs: readonly ClaimedJob[]): void
}

export class Outcomes {
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #turns: Turns
  readonly #capacity: number
  readonly #events: OutcomeEvents
  readonly #loop: Loop
  #queue: PendingOutcome[] = []
  #bytes = 0
  /** So many are sent alone before batches are tried again. */
  #oneByOne = 0
  #failing = false
  #hurries = false
  /** The last batch was not recorded altogether. */
  #sticking = false
  #idle: (() => void)[] = []

  /** `capacity`: with this many on their way, more jobs should not be started. */
  constructor(lane: Lane, worker: Worker, turns: Turns, capacity: number, events: OutcomeEvents) {
    this.#lane = lane
    this.#worker = worker
    this.#turns = turns
    this.#capacity = capacity
    this.#events = events
    this.#loop = new Loop(() => this.#flush(), events)
  }

  start(): void {
    this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  /**
   * Whether another job may be started. Not while the database takes no outcomes; and not while too many are on their way:
   * were this process to die, their jobs would run again.
   */
  get takeMore(): boolean {
    return !this.#failing && this.#queue.length < this.#capacity && this.#bytes < BYTES_AT_MOST
  }

  /** What is claimed now could not be started soon: others should have it. */
  get areStuck(): boolean {
    return this.#failing || (this.#sticking && !this.takeMore)
  }

  add(job: HeldJob, outcome: Outcome): void {
    const { outcome: rendered, bytes } = render(outcome)
    this.#bytes += bytes
    const uncertain = job.completedWithin
    const report: PendingOutcome = { job, outcome: rendered, uncertain, replaced: false, bytes, known: undefined }
    this.#queue.push(report)
    if (this.#turns.isHolding) this.#turns.ready(this.#queue.length, this.#heldUntil([report]))
    if (this.#queue.length > 1) return
    this.#loop.nudge()
    if (!this.#failing) this.#turns.open()
  }

  /** Holds nothing from here on. */
  hurry(): void {
    this.#hurries = true
    this.#turns.leaveNow()
  }

  /** Resolves when nothing is on its way. */
  async drained(): Promise<void> {
    this.hurry()
    if (this.#queue.length > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  async #flush(): Promise<number> {
    let sendsNext = false
    try {
      const waitMs = await this.#sendNext()
      // Or something has ended since it was empty.
      sendsNext = this.#queue.length > 0 && waitMs !== BUSY_AGAIN_MS
      return waitMs
    } finally {
      if (sendsNext) this.#turns.open()
      else this.#turns.close()
    }
  }

  #depart(): Promise<void> {
    const { length } = this.#queue
    return this.#turns.departure(length, length < MANY ? this.#heldUntil(this.#queue) : undefined)
  }

  /** Until when all of these may be held. Not once the worker stops, nor while half of what may be on its way is. */
  #heldUntil(reports: readonly PendingOutcome[]): number {
    if (this.#hurries || 2 * this.#queue.length > this.#capacity) return Number.NEGATIVE_INFINITY
    return Math.min(...reports.map(heldUntil))
  }

  async #sendNext(): Promise<number> {
    if (this.#queue.length > 0 && this.#oneByOne === 0) await this.#depart()
    const batch = this.#queue.slice(0, this.#oneByOne > 0 ? 1 : this.#batchSize())
    if (batch.length === 0) return Number.POSITIVE_INFINITY
    try {
      await this.#send(batch)
    } catch (error) {
      // What the database answered before the failure stands. A refusal does not: it may have been recorded earlier.
      const open = batch.filter(({ known }) => known === undefined || known === 'refused')
      for (const report of open) {
        report.uncertain = true
        report.known = undefined
      }
      this.#leave(batch, open)
      this.#sticking = true
      this.#failing = !isAboutTheData(error)
      if (this.#failing) throw error
      if (batch.length > 1) this.#oneByOne = open.length
      else this.#replace(batch[0]!, error)
      return 0
    }
    if (this.#oneByOne > 0) this.#oneByOne--
    this.#failing = false
    const open = batch.filter(({ known }) => known === undefined)
    this.#sticking = open.length > 0
    // What is busy goes to the end, so that those behind it are sent.
    this.#queue.splice(0, batch.length)
    this.#queue.push(...open)
    for (const report of batch) if (report.known !== undefined) this.#finish(report, report.known)
    return open.length === batch.length ? BUSY_AGAIN_MS : 0
  }

  /** Those that are known leave the queue; the others stay at its head. */
  #leave(batch: readonly PendingOutcome[], open: readonly PendingOutcome[]): void {
    if (open.length === batch.length) return
    this.#queue.splice(0, batch.length, ...open)
    for (const report of batch) if (report.known !== undefined) this.#finish(report, report.known)
  }

  #finish(report: PendingOutcome, known: RecordedAs): void {
    this.#bytes -= report.bytes
    this.#events.known(report, known)
    if (this.#queue.length === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  #batchSize(): number {
    let bytes = 0
    const tooMany = this.#queue.findIndex((report, index) => {
      bytes += report.bytes
      return index === BATCH || (index > 0 && bytes > BATCH_BYTES)
    })
    return tooMany === -1 ? this.#queue.length : tooMany
  }

  /** What becomes known is noted on the reports; the others are busy. */
  async #send(batch: readonly PendingOutcome[]): Promise<void> {
    const refused: PendingOutcome[] = []
    const completed = batch.filter(({ outcome }) => outcome.verb === 'complete')
    // No other statement takes a claim along.
    if (completed.length === 0) this.#turns.close()

    const toConfirm = batch.filter(({ outcome }) => outcome.verb === 'confirm')
    for (const [report, answer] of await this.#ask(toConfirm)) {
      // Still ours: the transaction in which the handler completed it did not commit, or not yet; then it is busy.
      if (answer === 'held') report.outcome = { verb: 'fail', error: rolledBack(), delayMs: backoffOf(report) }
      else learn(report, answer)
    }

    if (completed.length > 0) {
      const answer = await this.#complete(completed)
      if (answer.letIn) this.#events.letIn(completed.map(({ job }) => job.claimed))
      for (const report of completed) report.known = 'completed'
      const of = finder(completed, answer.refused.length + answer.busy.length)
      for (const lease of answer.busy) of(lease).known = undefined
      // At once: should a later statement of this batch fail, they were not completed.
      for (const lease of answer.refused) of(lease).known = 'refused'
      refused.push(...answer.refused.map(of))
    }

    const settled = batch.filter(({ outcome }) => outcome.verb !== 'complete' && outcome.verb !== 'confirm')
    if (settled.length > 0) {
      this.#turns.close()
      const of = finder(settled, settled.length)
      for (const item of await settle(this.#lane, this.#worker, settled.map(toSettlement))) {
        if (item.outcome === 'refused') refused.push(of(item))
        else if (item.outcome !== 'busy') of(item).known = item.outcome
      }
    }

    for (const report of refused) report.known = 'refused'
    for (const [report, answer] of await this.#ask(refused)) {
      // The sweep may have ended the job. Any other answer means no more than that the lease was gone.
      if (report.uncertain || answer === 'lease_expired' || answer === 'cancelled') learn(report, answer)
    }
    await this.#forgive(refused.filter(({ known }) => known === 'refused'))
  }

  /** If a statement fails, what the ones before it have written is completed. */
  async #complete(reports: readonly PendingOutcome[]): Promise<NotWritten> {
    const written: Lease[] = []
    try {
      return await this.#turns.complete(this.#worker, reports.map(toCompletion), written)
    } catch (error) {
      const of = finder(reports, written.length)
      for (const lease of written) of(lease).known = 'completed'
      throw error
    }
  }

  /** Their leases expired, yet here we are: had the sweep counted a crash, it is taken back. */
  async #forgive(refused: readonly PendingOutcome[]): Promise<void> {
    if (refused.length === 0) return
    const leases = refused.map(({ job }) => job.claimed)
    const forgiven = await forgive(this.#lane, leases)
    // It is as if a release had come in time. Any other outcome did come too late.
    refused.forEach((report, index) => {
      if (forgiven[index] && report.outcome.verb === 'release') report.known = 'pending'
    })
  }

  async #ask(reports: readonly PendingOutcome[]): Promise<[PendingOutcome, Recorded][]> {
    if (reports.length === 0) return []
    const answers = await recorded(
      this.#lane,
      reports.map(({ job }) => job.claimed),
    )
    return reports.map((report, index) => [report, answers[index]!])
  }

  // The job must not be lost: it has failed, with an error that is certain to be storable.
  #replace(report: PendingOutcome, error: unknown): void {
    if (report.replaced) {
      this.#queue.shift()
      this.#finish(report, 'unrecordable')
      return
    }
    const { message } = describeError(error)
    const plain = { name: 'Error', message: `The outcome could not be stored: ${message}` }
    report.replaced = true
    report.outcome = { verb: 'fail', error: plain, delayMs: backoffOf(report) }
  }
}
