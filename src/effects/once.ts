/**
 * Effects that happen once, however often their job runs (decisions/0021).
 *
 * In the caller's transaction the marker commits with the effect, so its state is always known. Elsewhere the marker commits
 * first and the end is recorded afterwards. A crash in between leaves a marker that was begun and has no end: whether the
 * effect happened is unknown. The caller chooses what happens then: stop and ask a person, or run it again.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { EffectUnknownError, InvalidOptionError, LeaseLostError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { NotDone } from '../core/steering.ts'
import { sleep } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { undoingFailure } from '../db/savepoint.ts'
import { checkTx, type Tx } from '../db/tx.ts'
import { framesAround, inFrame, inTurn } from '../db/tx-line.ts'
import { type Lease, leaseOf } from '../jobs/job.ts'
import { lockLease } from './lease.ts'
import { begin, checkName, decode, done, encode, notDone, type Run, takeOver } from './ledger.ts'

/** Before the effect nothing is lost by giving up; after it, a person has to find out. */
const BEGIN_TRIES = 5
const DONE_TRIES = 10
const LONGEST_WAIT_MS = 1_000

export interface OnceOptions {
  /**
   * What to do when an earlier attempt began the effect and recorded no end. stop: throw EffectUnknownError, which makes the
   * job a dead letter: at most once. retry: run it again: at least once, for services that accept an idempotency key.
   * Default: stop.
   */
  readonly ifUnknown?: 'stop' | 'retry'
}

export interface Once {
  /**
   * In your open transaction: the effect, its marker and its result commit together. If it throws, only the effect is
   * undone. The result is stored as JSON, as below.
   */
  <T, Own extends Tx>(
    name: string,
    effect: (tx: Own) => Promise<T> | T,
    options: OnceOptions & { readonly tx: Own },
  ): Promise<T>
  /**
   * Runs the effect at most once across all attempts of this job, and returns its result as JSON keeps it: a repeat
   * returns the same without running it. So T should be what JSON can hold: a Date becomes a string, a Map becomes {}.
   */
  <T>(name: string, effect: () => Promise<T> | T, options?: OnceOptions): Promise<T>
}

type AnyEffect = (tx?: Tx) => unknown
type AnyOptions = OnceOptions & { readonly tx?: Tx }

/** The job's state in this process. */
export interface Standing {
  /** The lease is gone. */
  isLost(): boolean
  /** complete(tx) was called: while that transaction is open, it locks the job row. */
  isCompleted(): boolean
}

/** The effects that an attempt has begun and run. */
export class Effects {
  readonly #lane: Lane
  readonly #lease: Lease
  readonly #standing: Standing
  readonly #running = new Map<string, { readonly tx: Tx | undefined; readonly promise: Promise<unknown> }>()
  readonly #underWay = new Set<Promise<unknown>>()
  /** Our runs that had no effect: not started, or threw NotDone. */
  readonly #idle = new Set<string>()
  #ended = false

  constructor(lane: Lane, lease: Lease, standing: Partial<Standing> = {}) {
    this.#lane = lane
    this.#lease = leaseOf(lease)
    this.#standing = { isLost: () => false, isCompleted: () => false, ...standing }
  }

  readonly once = (async (name: string, effect: AnyEffect, options: AnyOptions = {}) => {
    checkName(name)
    if (typeof effect !== 'function') throw new InvalidOptionError('effect', 'it must be a function')
    checkOptions('once', options, ['ifUnknown', 'tx'])
    const { tx, ifUnknown = 'stop' } = options
    if (ifUnknown !== 'stop' && ifUnknown !== 'retry') {
      throw new InvalidOptionError('once.ifUnknown', "it must be 'stop' or 'retry'")
    }
    if (tx !== undefined) checkTx(tx)
    if (this.#ended) throw new LeaseLostError(this.#lease)
    for (const frame of framesAround()) {
      if (frame.owner !== this || frame.name !== name) continue
      throw new InvalidOptionError('name', `once(${JSON.stringify(name)}) was called inside its own effect`)
    }
    const running = this.#running.get(name)
    if (running !== undefined && (running.tx === undefined || running.tx === tx)) return running.promise
    if (tx === undefined && this.#standing.isCompleted()) {
      throw new InvalidOptionError(
        'tx',
        'job.complete(tx) was called, and an effect outside that transaction would wait for its end; begin it before',
      )
    }
    const call = new Call(this.#lane, this.#lease, this.#standing.isLost, this.#idle, name, ifUnknown, tx)
    const run = () => call.run((own) => inFrame({ owner: this, name, tx: own }, async () => effect(own)))
    const promise = tx === undefined ? run() : inTurn(tx, run)
    const entry = { tx, promise }
    this.#running.set(name, entry)
    this.#underWay.add(promise)
    try {
      return await promise
    } finally {
      this.#underWay.delete(promise)
      if (this.#running.get(name) === entry) this.#running.delete(name)
    }
  }) as Once

  /**
   * Resolves when no effect is running; from then on none begins. The worker waits for this before it releases the job:
   * otherwise the next attempt would begin an effect that this one is still running.
   */
  async end(): Promise<void> {
    while (this.#underWay.size > 0) {
      await Promise.allSettled(this.#underWay)
      // Code that awaited one effect may begin another.
      await setImmediate()
    }
    this.#ended = true
  }
}

/** One call of once(). */
class Call {
  readonly #lane: Lane
  readonly #lease: Lease
  readonly #isLost: () => boolean
  readonly #idle: Set<string>
  readonly #run: Run
  readonly #ifUnknown: 'stop' | 'retry'
  readonly #tx: Tx | undefined

  constructor(
    lane: Lane,
    lease: Lease,
    isLost: () => boolean,
    idle: Set<string>,
    name: string,
    ifUnknown: 'stop' | 'retry',
    tx: Tx | undefined,
  ) {
    this.#lane = tx === undefined ? lane : lane.within(tx)
    this.#lease = lease
    this.#isLost = isLost
    this.#idle = idle
    this.#run = { lease, name, id: randomUUID() }
    this.#ifUnknown = ifUnknown
    this.#tx = tx
  }

  async run(effect: AnyEffect): Promise<unknown> {
    if (this.#isLost()) throw new LeaseLostError(this.#lease)
    if (this.#tx === undefined) return this.#attempt(effect)
    // Before the savepoint, because a rollback to it would release the lease.
    await lockLease(this.#lane, this.#lease)
    return undoingFailure(this.#lane, () => this.#attempt(effect))
  }

  async #attempt(effect: AnyEffect): Promise<unknown> {
    this.#idle.add(this.#run.id)
    const begun = await this.#begin()
    if (begun.done) return begun.result
    if (this.#isLost()) {
      // This process was suspended. The effect has not run.
      if (this.#tx === undefined) await this.#remove().catch(() => {})
      throw new LeaseLostError(this.#lease)
    }
    this.#idle.delete(this.#run.id)
    let result: string | null
    try {
      result = encode(await effect(this.#tx))
    } catch (error) {
      throw await this.#afterFailure(error, begun.since)
    }
    await this.#record(result, begun.since)
    // Decoded, as the next attempt would get it, so that a difference shows before the first crash.
    return decode(result)
  }

  async #begin(): Promise<{ done: true; result: unknown } | { done: false; since: Date }> {
    for (;;) {
      const found = await this.#send(BEGIN_TRIES, () => begin(this.#lane, this.#run))
      if (found.state === 'refused') throw new LeaseLostError(this.#lease)
      if (found.state === 'done') return { done: true, result: found.result }
      const { since } = found
      // Begun just now, or by a request whose reply was lost.
      if (found.state === 'begun' || found.by === this.#run.id) return { done: false, since }
      const { by } = found
      if (this.#ifUnknown === 'stop' && !this.#idle.has(by)) throw this.#unknown(since)
      const taken = await this.#send(BEGIN_TRIES, () => takeOver(this.#lane, this.#run, by))
      if (taken === 'refused') throw new LeaseLostError(this.#lease)
      // Ours now, or changed by another run: look again.
    }
  }

  async #record(result: string | null, since: Date): Promise<void> {
    const answer = await this.#send(DONE_TRIES, () => done(this.#lane, this.#run, result)).catch((error) => {
      throw this.#tx === undefined && this.#ifUnknown === 'stop' ? this.#unknown(since, error) : error
    })
    // In a transaction the lock on the job row has kept the lease, and the effect itself may have completed the job.
    const isHeld = answer.held || this.#tx !== undefined
    if (!answer.recorded || !isHeld) throw new LeaseLostError(this.#lease)
  }

  /** The error that the handler receives. */
  async #afterFailure(error: unknown, since: Date): Promise<unknown> {
    const isNotDone = isA(NotDone, error)
    // Its marker is rolled back.
    if (this.#tx !== undefined) return isNotDone ? (error.cause ?? error) : error
    if (isNotDone) {
      this.#idle.add(this.#run.id)
      const lost = await this.#remove().then(
        () => undefined,
        (error) => ({ error }),
      )
      if (lost !== undefined && this.#ifUnknown === 'stop') return this.#unknown(since, lost.error)
      return error.cause ?? error
    }
    if (isA(LeaseLostError, error) && error.jobId === this.#lease.jobId) return error
    if (this.#isLost()) return new LeaseLostError(this.#lease, { cause: error })
    return this.#ifUnknown === 'retry' ? error : this.#unknown(since, error)
  }

  #remove(): Promise<void> {
    return this.#send(BEGIN_TRIES, () => notDone(this.#lane, this.#run))
  }

  #unknown(since: Date, cause?: unknown): EffectUnknownError {
    const options = cause === undefined ? undefined : { cause }
    return new EffectUnknownError(this.#lease.jobId, this.#run.name, since.toISOString(), options)
  }

  /** Every statement here may be sent twice, but not in a transaction, which ends with its connection. */
  async #send<T>(tries: number, send: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await send()
      } catch (error) {
        if (this.#tx !== undefined || attempt === tries || !isOutage(error)) throw error
      }
      await sleep(Math.min(10 * 2 ** attempt, LONGEST_WAIT_MS))
    }
  }
}

/** A proxy can throw in `instanceof`. */
function isA<T>(type: abstract new (...args: never[]) => T, error: unknown): error is T {
  try {
    return error instanceof type
  } catch {
    return false
  }
}
