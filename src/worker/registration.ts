import pg from 'pg'
import type { Kind } from '../core/kind.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { Worker } from '../jobs/job.ts'
import {
  beat,
  type QueueRates,
  registerWorker,
  type Vitals,
  type WorkerMode,
  workerDrains,
  workerStopped,
} from '../jobs/registry.ts'
import { VERSION } from '../version.ts'
import { EventLoopDelay, HOST, memoryBytes, memoryLimitBytes } from './process-health.ts'

/** A worker that has missed three beats is dead (leasehold.note_deaths). */
const BEAT_EVERY_MS = 5_000
/**
 * A worker cannot beat while the database is away, or while its own process stands still. So one whose own beats had a gap judges no
 * other until all had time for three beats.
 */
const GAP_MS = 1.3 * BEAT_EVERY_MS
const TIME_TO_BEAT_MS = 3 * BEAT_EVERY_MS

export interface RegistrationOptions {
  readonly lane: Lane
  readonly worker: Worker
  readonly mode: WorkerMode
  /** How to note that the worker has stopped. Default: over the same lane. */
  readonly goodbye?: Lane
  /** The jobs of a worker, for each beat. Not known of claims by hand. */
  readonly load?: { readonly held: number; readonly running: number; takeRates(): QueueRates }
  /** It was noted as dead; in words. */
  onReturned?(message: string): void
}

/** How the beats of a worker went, on the monotonic clock. */
export interface BeatRecord {
  /** When the last beat that succeeded was sent. Undefined: none was. */
  readonly seenAt: number | undefined
  /** The last beat was answered with an error of the database. Undefined: it succeeded, or was not answered. */
  readonly refusal: { readonly code: string; readonly at: number } | undefined
}

/** One worker's row in the registry: written before its first claim, kept up to date while it runs. */
export class Registration {
  readonly #options: RegistrationOptions
  readonly #kinds = new Set<string>()
  readonly #queues = new Set<string>()
  readonly #eventLoop = new EventLoopDelay()
  #wasSent = false
  #drains = false
  /** The row has all names, as far as this process knows. */
  #isKnown = false
  /** When the last sighting that succeeded was sent. */
  #seenAt = Number.NEGATIVE_INFINITY
  #refusal: BeatRecord['refusal']
  #sending: Promise<void> | undefined
  #steadySince = Number.POSITIVE_INFINITY
  #silence = false

  constructor(options: RegistrationOptions) {
    this.#options = options
  }

  /**
   * Registers the worker if it is not, or if one of these kinds is new; beats if it was not seen for 5 s. Returns after how many
   * milliseconds that will be due again. Throws the database's error; call it again.
   */
  async renew(kinds: readonly Kind[] = []): Promise<number> {
    this.#add(kinds)
    // Once, unless there is more to tell: on a slow database the next may be due when this one is answered.
    for (let isDue = this.#dueInMs <= 0; isDue; isDue = !this.#isKnown) {
      this.#sending ??= this.#send()
      await this.#sending
    }
    return this.#dueInMs
  }

  get beats(): BeatRecord {
    return { seenAt: Number.isFinite(this.#seenAt) ? this.#seenAt : undefined, refusal: this.#refusal }
  }

  /** Whether the last beat found that another worker has missed three. Not if this one missed some itself of late. */
  takeSilence(): boolean {
    const found = this.#silence
    this.#silence = false
    return found
  }

  /** Notes that the worker is about to claim nothing more, if it ever registered. */
  async drains(): Promise<void> {
    this.#drains = true
    if (this.#wasSent) await workerDrains(this.#options.lane, this.#options.worker)
  }

  /** Notes that the worker has stopped, if it ever registered. */
  async stopped(): Promise<void> {
    const { lane, goodbye = lane, worker } = this.#options
    this.#eventLoop.stop()
    if (this.#wasSent) await workerStopped(goodbye, worker)
  }

  get #dueInMs(): number {
    return this.#isKnown ? this.#seenAt + BEAT_EVERY_MS - monotonicMs() : Number.NEGATIVE_INFINITY
  }

  #add(kinds: readonly Kind[]): void {
    const known = this.#size
    for (const { name, queue } of kinds) {
      this.#kinds.add(name)
      this.#queues.add(queue)
    }
    if (this.#size > known) this.#isKnown = false
  }

  get #size(): number {
    return this.#kinds.size + this.#queues.size
  }

  async #send(): Promise<void> {
    const { lane, worker, load } = this.#options
    const sentAt = monotonicMs()
    try {
      const beaten = this.#isKnown
        ? await beat(lane, worker, this.#vitals(), load?.takeRates())
        : await this.#register()
      // Its row was deleted, or the worker was taken for dead: it registers at once.
      if (beaten === undefined) this.#isKnown = false
      if (beaten === undefined || monotonicMs() - this.#seenAt > GAP_MS) this.#steadySince = sentAt
      this.#silence = beaten?.silence === true && sentAt - this.#steadySince >= TIME_TO_BEAT_MS
      this.#seenAt = sentAt
      this.#refusal = undefined
    } catch (error) {
      const code = error instanceof pg.DatabaseError ? error.code : undefined
      this.#refusal = code === undefined ? undefined : { code, at: monotonicMs() }
      throw error
    } finally {
      this.#sending = undefined
    }
  }

  async #register(): Promise<{ readonly silence: false }> {
    const { lane, worker, mode, onReturned } = this.#options
    const known = this.#size
    if (mode !== 'by_hand') this.#eventLoop.start()
    this.#wasSent = true
    const outcome = await registerWorker(lane, worker, {
      version: VERSION,
      mode,
      host: HOST,
      pid: process.pid,
      kinds: [...this.#kinds].sort(),
      queues: [...this.#queues].sort(),
      memoryLimitBytes: memoryLimitBytes(),
      drains: this.#drains,
    })
    // With names that were added meanwhile it is sent once more.
    this.#isKnown = this.#size === known
    if (outcome === 'returned')
      onReturned?.(`worker ${worker.label} was noted as dead and is back: it could not beat for 15 s`)
    return { silence: false }
  }

  #vitals(): Vitals {
    const { held = null, running = null } = this.#options.load ?? {}
    return { held, running, eventLoopMs: this.#eventLoop.takeMs(), memoryBytes: memoryBytes() }
  }
}
