/**
 * Hears of new work, of cancellations and of pauses at once. It is believed only after a test: a message sent over another
 * connection has to arrive here. Behind a pooler in transaction mode LISTEN succeeds and nothing ever arrives; after a half-open
 * socket the same. Then the worker polls, and the test is tried again later.
 */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { sleep } from '../core/timer.ts'
import { Lane } from '../db/lane.ts'
import { Session, type SessionOptions } from '../db/session.ts'
import { channelOf, fleetOf, listen, notify } from '../jobs/wake.ts'
import { Loop, type LoopEvents } from '../runtime/loop.ts'

const TEST_EVERY_MS = 30_000
/** Workers mostly start together: soon after the first test all of them are known. */
const SECOND_TEST_AFTER_MS = 3_000
const TEST_AGAIN_AFTER_MS = 300_000
const ARRIVES_WITHIN_MS = 2_000

export interface ListenerOptions {
  readonly connection: SessionOptions['connection']
  readonly deadlineMs: number
  /** Another connection, over which the test is sent. */
  readonly over: Lane
  readonly prepare: boolean
  /** Whose workers are counted. */
  readonly queue: string
  onWork(queue: string): void
  onHelp(queue: string): void
  /** So many workers hear what this one hears. */
  onFleet(workers: number): void
  onCancel(jobId: string): void
  onPause(message: string): void
  onSignal(queue: string): void
  onRing(message: string): void
  /** Whether messages arrive, from now on. */
  onHears(hears: boolean): void
  readonly events: Required<LoopEvents>
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #session: Session
  readonly #lane: Lane
  readonly #loop: Loop
  #subscribed = false
  #tests = 0
  #test: { readonly message: string; readonly arrived: AbortController } | undefined

  constructor(options: ListenerOptions) {
    this.#options = options
    const { schema } = options.over
    this.#session = new Session({
      connection: options.connection,
      deadlineMs: options.deadlineMs,
      onLost: (error) => {
        this.#subscribed = false
        options.onHears(false)
        options.events.problem(error)
        this.#loop.nudge()
      },
      onNotification: (channel, message) => {
        if (channel === channelOf(schema, 'cancel')) options.onCancel(message)
        else if (channel === channelOf(schema, 'pause')) options.onPause(message)
        else if (channel === channelOf(schema, 'signal')) options.onSignal(message)
        else if (channel === channelOf(schema, 'help')) options.onHelp(message)
        else if (channel === channelOf(schema, 'ring')) options.onRing(message)
        else if (message === this.#test?.message) this.#test.arrived.abort()
        else options.onWork(message)
      },
    })
    this.#lane = new Lane(this.#session, { schema, prepare: options.prepare })
    this.#loop = new Loop(() => this.#tick(), {
      ...options.events,
      problem: (error) => {
        options.onHears(false)
        options.events.problem(error)
      },
    })
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    this.#test?.arrived.abort()
    await this.#loop.stop()
    await this.#session.close()
  }

  async #tick(): Promise<number> {
    if (!this.#subscribed) {
      await listen(this.#lane)
      this.#subscribed = true
      this.#options.events.worksAgain() // Also when no tick has failed: a connection can be lost between them.
    }
    const hears = await this.#testArrives()
    this.#options.onHears(hears)
    if (hears) {
      // It listens, whether or not the others can be counted. Claims use the same connection, and report what is wrong with it.
      const workers = await fleetOf(this.#options.over, [this.#options.queue]).catch(() => undefined)
      if (workers !== undefined) this.#options.onFleet(workers)
      return this.#tests++ === 0 ? SECOND_TEST_AFTER_MS : TEST_EVERY_MS
    }
    this.#subscribed = false
    await this.#session.close()
    return TEST_AGAIN_AFTER_MS
  }

  async #testArrives(): Promise<boolean> {
    const arrived = new AbortController()
    this.#test = { message: `test ${randomUUID()}`, arrived }
    await notify(this.#options.over, 'wake', this.#test.message)
    await sleep(ARRIVES_WITHIN_MS, arrived.signal)
    await setImmediate() // After a standstill the timer rings before what has arrived meanwhile is read.
    this.#test = undefined
    return arrived.signal.aborted
  }
}
