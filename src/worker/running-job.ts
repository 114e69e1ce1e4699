import { LeaseLostError } from '../core/errors.ts'
import type { Connection } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import type { Tx } from '../db/tx.ts'
import { inTurn } from '../db/tx-line.ts'
import { effectKey } from '../effects/key.ts'
import { assertLease } from '../effects/lease.ts'
import { Effects, type Once } from '../effects/once.ts'
import { completeWithin } from '../jobs/completion.ts'
import type { ClaimedJob, Worker } from '../jobs/job.ts'
import { progress } from '../jobs/outcome.ts'
import { dateOf } from '../jobs/stored-time.ts'
import type { Settle } from './batch.ts'
import type { BatchJob, HeldJob, Job } from './job.ts'

/** For the parts of other subpaths that are handlers themselves, such as workflows. */
export const RUNNING = Symbol('running')

/** The job as its handler sees it. Getters, because most handlers look at little of it. */
export class RunningJob implements Job {
  readonly input: unknown
  readonly #held: HeldJob
  readonly #claimed: ClaimedJob
  readonly #connection: Connection
  readonly #lane: Lane
  readonly #worker: Worker

  constructor(held: HeldJob, input: unknown, connection: Connection, worker: Worker) {
    this.input = input
    this.#held = held
    this.#claimed = held.claimed
    this.#connection = connection
    this.#lane = connection.lane
    this.#worker = worker
  }

  get [RUNNING](): { held: HeldJob; connection: Connection; worker: Worker } {
    return { held: this.#held, connection: this.#connection, worker: this.#worker }
  }

  get id() {
    return this.#claimed.jobId
  }

  get kind() {
    return this.#claimed.kind
  }

  get queue() {
    return this.#claimed.queue
  }

  get attempt() {
    return this.#claimed.attempt
  }

  get maxAttempts() {
    return this.#claimed.maxAttempts
  }

  get claimId() {
    return this.#claimed.claimId
  }

  get generation() {
    return this.#claimed.generation
  }

  get partitionKey() {
    return this.#claimed.partitionKey
  }

  get metadata() {
    const { metadata } = this.#claimed
    return metadata === null ? null : JSON.parse(metadata)
  }

  get enqueuedAt() {
    return dateOf(this.#claimed.createdAt)
  }

  get signal() {
    return this.#held.signal
  }

  async complete(tx: Tx, result?: unknown): Promise<void> {
    const { claimed, handler } = this.#held
    // From here on only the database knows: the caller may drop the error, and the transaction may commit.
    this.#held.completions++
    const item = { ...claimed, result, keepMs: handler.kind.keepMs }
    const lane = this.#lane.within(tx)
    await inTurn(tx, () => completeWithin(lane, this.#worker, item)).catch((error) => {
      // This call changed nothing; another one may have.
      if (error instanceof LeaseLostError) this.#held.completions--
      throw error
    })
  }

  get once(): Once {
    const held = this.#held
    // Ended by its timeout or a stop, though the handler may still run.
    const isOver = () => held.state !== 'running'
    const isLost = () => held.aborted === 'lease_lost' || !held.leaseIsOurs() || isOver()
    const isCompleted = () => held.completedWithin
    held.effects ??= new Effects(this.#lane, this.#claimed, { isLost, isCompleted })
    return held.effects.once
  }

  effectKey(name: string): string {
    return effectKey(this.#claimed, name)
  }

  async assertLease(tx: Tx): Promise<void> {
    const lane = this.#lane.within(tx)
    await inTurn(tx, () => assertLease(lane, this.#claimed))
  }

  async progress(note: unknown): Promise<void> {
    // Busy: another transaction has locked the row. A note is not worth waiting for.
    if ((await progress(this.#lane, this.#claimed, note)) === 'refused') throw this.#held.lost()
  }
}

export class RunningBatchJob extends RunningJob implements BatchJob {
  readonly #settle: Settle

  constructor(held: HeldJob, input: unknown, connection: Connection, worker: Worker, settle: Settle) {
    super(held, input, connection, worker)
    this.#settle = settle
  }

  succeed(result?: unknown): void {
    this.#settle.resolve(result)
  }

  fail(error: unknown): void {
    this.#settle.reject(error)
  }
}
