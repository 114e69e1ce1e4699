/**
 * A consumer of one queue of a broker.
 *
 *   intake ──messages──► groups ──► disposition: body, handler ──► acknowledger: deletes, dead letters, returns
 *                          visibility: extends all held messages, and gives up in time
 *
 * A message is held from its receive until it is known to be deleted, or is visible to others again. It is deleted only
 * after its handler has returned, and a handler returns when it knows what was committed (decisions/0023).
 */
import { StoppingError, TimedOutError } from '../core/errors.ts'
import { monotonicMs } from '../core/timer.ts'
import { OwnSchedule } from '../runtime/chore-schedules.ts'
import { Chores } from '../runtime/chores.ts'
import { DrainableSet } from '../runtime/drainable-set.ts'
import { Lifecycle } from '../runtime/lifecycle.ts'
import { Service } from '../runtime/service.ts'
import { Acknowledger } from './acknowledger.ts'
import type { Broker, Intake, IntakeParts } from './broker.ts'
import { databaseReachable, dispositionOf, type ReturnReason } from './disposition.ts'
import { ASKING, type ConsumerEvents, type Counts, Events } from './events.ts'
import { Groups } from './groups.ts'
import type { HeldMessage } from './held.ts'
import type { ConsumerSettings } from './settings.ts'
import { Visibility } from './visibility.ts'

/** After the last handler, the remaining deletes and returns have this long. */
const LAST_WORDS_MS = 10_000

export class Consumer extends Service<ConsumerEvents> {
  readonly #settings: ConsumerSettings
  readonly #broker: Broker
  protected readonly events: Events
  readonly #intake: Intake
  readonly #visibility: Visibility
  readonly #groups: Groups
  readonly #acknowledger: Acknowledger
  readonly #chores: Chores
  /** Messages whose handlers run. */
  readonly #running = new DrainableSet<HeldMessage>()
  /** Received messages that wait for their turn in their group. */
  #waiting = 0
  protected readonly lifecycle: Lifecycle
  #refused: { readonly error: Error } | undefined

  constructor(settings: ConsumerSettings, broker: Broker, open: (parts: IntakeParts) => Intake) {
    super()
    this.#settings = settings
    this.#broker = broker
    const { isGrouped, onGroupFailure, receiveMs, visibilityMs, timeoutMs, concurrency, log, logsAll } = settings
    const events = new Events(log, logsAll)
    const problem = (doing: string) => (error: unknown) => events.problem(doing, error)
    this.events = events
    this.#groups = new Groups(receiveMs)
    this.#visibility = new Visibility(broker, visibilityMs, timeoutMs, {
      extended: (held) => {
        events.note('extended', held)
        events.fine('extending visibility')
      },
      expired: (held, why) => this.#expired(held, why),
      problem: problem('extending visibility'),
    })
    const isMoreToCome = () => this.#running.size > 0
    this.#acknowledger = new Acknowledger({
      settings,
      broker,
      visibility: this.#visibility,
      groups: this.#groups,
      events,
      isMoreToCome: () => isMoreToCome() && this.#waiting === 0, // Messages of a group wait for a delete.
      severalForMs: () => this.#intake.severalForMs(),
    })
    this.#chores = new Chores(settings.chores, new OwnSchedule(), settings.pool, events)
    this.#intake = open({
      room: () => concurrency - this.#running.size - this.#waiting - this.#tooManyEnding(),
      isMoreToCome,
      oneAtATime: () => isGrouped && onGroupFailure === 'stop' && this.#groups.isAnyStopped(),
      onReceived: (received) => this.#received(received),
      onAnswered: () => events.fine('receiving'),
      onProblem: problem('receiving'),
      onRefused: (error) => {
        this.#refused = { error }
        void this.stop({ grace: 0 })
      },
    })
    const { signals, graceMs } = this.#settings
    let areAborted = false
    this.lifecycle = new Lifecycle({
      signals,
      graceMs,
      start: () => this.#start(),
      close: (ms) => this.#close(ms),
      // Aborted handlers always get their moment: what they have done is deleted then, and not delivered again.
      untilIdle: (ms, hurry) => this.#running.left(ms, areAborted ? undefined : hurry),
      abortHandlers: () => {
        areAborted = true
        for (const held of this.#running)
          held.stop(new StoppingError('The consumer is stopping. The message is returned.'))
      },
      finish: (closed) => this.#finish(closed),
      end: () => this.#end(),
    })
  }

  /** Counts since the start. */
  counts(): Counts {
    return { ...this.events.counts }
  }

  /** How many messages are held: waiting for their turn, being handled, or about to be deleted. */
  get held(): number {
    return this.#waiting + this.#running.size + this.#acknowledger.open.size
  }

  async #start(): Promise<void> {
    this.#visibility.start()
    this.#chores.start()
    this.#intake.more()
  }

  #close(graceMs: number): Promise<unknown> {
    this.events.stopping(this.#running.size, graceMs, this.#settings.signals.length > 0)
    const hungUp = Promise.all([this.#intake.stop(), this.#chores.stop()])
    this.#returnAll(this.#groups.takeAll(), 'stopping')
    return hungUp
  }

  async #finish(closed: Promise<unknown>): Promise<void> {
    for (const held of [...this.#running].reverse()) void this.#acknowledger.return(held, 'stopping', 0)
    await closed
    await this.#acknowledger.open.left(LAST_WORDS_MS)
    this.#acknowledger.giveUp()
    await this.#visibility.stop()
  }

  async #end(): Promise<void> {
    this.events.emit('stopped')
    if (this.#refused !== undefined) throw this.#refused.error
  }

  async #received(received: readonly HeldMessage[]): Promise<void> {
    const { isGrouped } = this.#settings
    for (const held of received) {
      this.events.note('received', held)
      if (held.delivery.receiveCount > 1) this.events.note('redelivered', held)
    }
    await this.#visibility.hold(received)
    // Also expired ones: each has its turn, which does nothing, so that those behind it in its group do not go on.
    for (const held of received) {
      if (isGrouped && !this.#groups.enter(held)) this.#waiting++
      else void this.#process(held)
    }
    if (this.lifecycle.isStopping) this.#returnAll(this.#groups.takeAll(), 'stopping')
  }

  #expired(held: HeldMessage, why: string): void {
    this.events.note('expired', held)
    this.events.log('warn', held, `lost its visibility, so ${this.#broker.name} may redeliver it: ${why}`)
    if (this.#settings.isGrouped) {
      if (this.#settings.onGroupFailure === 'stop') this.#groups.stop(held, held.grantedUntil - monotonicMs())
      this.#stopGroup(held)
      if (this.#groups.remove(held)) this.#waiting--
      else queueMicrotask(() => this.#next(held)) // Those behind it may expire in the same moment and must not begin.
    }
    this.#checkHandlers()
    this.#intake.more()
  }

  /** The broker redelivers their messages, but all slots are taken by hanging handlers. */
  #checkHandlers(): void {
    const { concurrency } = this.#settings
    const isLost = this.#running.size >= concurrency && [...this.#running].every(({ isGone }) => isGone)
    if (!isLost) return
    this.events.problem(
      'handling',
      new TimedOutError(`Each of ${concurrency} handlers ignores its signal and`, this.#settings.timeoutMs),
    )
  }

  async #process(held: HeldMessage): Promise<void> {
    const isDeleted = await this.#handle(held).catch((error) => {
      this.events.problem('handling', error) // An internal error must not block its group.
      return false
    })
    this.#visibility.release(held)
    if (!this.#settings.isGrouped) return
    if (isDeleted) this.#groups.goOn(held)
    else this.#stopGroup(held)
    this.#next(held)
  }

  #next(held: HeldMessage): void {
    const next = this.#groups.leave(held)
    if (next === undefined) return
    this.#waiting--
    void this.#process(next)
  }

  /** Returns whether the message is known to be deleted. */
  async #handle(held: HeldMessage): Promise<boolean> {
    // Its visibility expired before its turn, or it was received after the stop.
    if (held.isGone) return false
    if (this.lifecycle.isStopping) return this.#acknowledger.return(held, 'stopping', 0)
    this.#running.add(held)
    this.#visibility.begin(held)
    const startedAt = monotonicMs()
    const disposition = await dispositionOf(held, this.#settings, this.#settings.handle)
    held.startedAt = undefined
    this.#acknowledger.open.add(held)
    this.#running.delete(held)
    const there = databaseReachable(disposition)
    if (there) this.events.fine(ASKING)
    this.#intake.databaseIs(there)
    this.#intake.more()
    try {
      return await this.#acknowledger.settle(held, disposition, monotonicMs() - startedAt)
    } finally {
      this.#acknowledger.open.delete(held)
      this.#intake.more()
    }
  }

  /** No message of its group may overtake it. */
  #stopGroup(held: HeldMessage): void {
    if (this.#settings.onGroupFailure === 'stop') this.#returnAll(this.#groups.takeBehind(held), 'group_stopped')
  }

  #returnAll(waiting: readonly HeldMessage[], reason: ReturnReason): void {
    this.#waiting -= waiting.length
    for (const held of waiting) void this.#acknowledger.return(held, reason, 0)
  }

  /** If the broker refuses deletes, messages must not fill the memory. */
  #tooManyEnding(): number {
    return Math.max(0, this.#acknowledger.open.size - Math.max(100, this.#settings.concurrency))
  }
}
