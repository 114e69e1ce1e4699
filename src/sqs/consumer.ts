/**
 * A consumer of one SQS queue.
 *
 *   receiver ──messages──► groups ──► disposition: body, handler ──► deletes, dead letters, returns
 *                            visibility: extends all held messages, and gives up in time
 *
 * A message is held from its receive until it is known to be deleted, or is visible to others again. It is deleted only
 * after its handler has returned, and a handler returns when it knows what was committed (decisions/0023).
 */
import type { Message } from '@aws-sdk/client-sqs'
import { describeError } from '../core/error-description.ts'
import { InvalidOptionError, StoppingError, TimedOutError } from '../core/errors.ts'
import { monotonicMs } from '../core/timer.ts'
import { OwnSchedule } from '../runtime/chore-schedules.ts'
import { Chores } from '../runtime/chores.ts'
import { DrainableSet } from '../runtime/drainable-set.ts'
import { Lifecycle } from '../runtime/lifecycle.ts'
import { Service } from '../runtime/service.ts'
import { Acknowledger } from './acknowledger.ts'
import { databaseReachable, dispositionOf, type ReturnReason } from './disposition.ts'
import { ASKING, type Counts, Events, type SqsConsumerEvents } from './events.ts'
import { Groups } from './groups.ts'
import { HeldMessage } from './held.ts'
import { type Settings, type SqsConsumerOptions, settings } from './options.ts'
import { SqsQueue } from './queue.ts'
import { Receiver } from './receiver.ts'
import type { SqsClient } from './request.ts'
import { Visibility } from './visibility.ts'

/** After the last handler, the remaining deletes and returns have this long. */
const LAST_WORDS_MS = 10_000

export class SqsConsumer<Body = unknown> extends Service<SqsConsumerEvents> {
  readonly #settings: Settings
  readonly #queue: SqsQueue
  protected readonly events: Events
  readonly #receiver: Receiver
  readonly #visibility: Visibility
  readonly #groups: Groups
  readonly #acknowledger: Acknowledger
  readonly #chores: Chores
  /** Messages whose handlers run. */
  readonly #running = new DrainableSet<HeldMessage>()
  /** Received messages that wait for their turn in their group. */
  #waiting = 0
  protected readonly lifecycle: Lifecycle
  #refused: { readonly error: unknown } | undefined

  constructor(client: SqsClient, options: SqsConsumerOptions<Body>) {
    super()
    if (typeof client?.send !== 'function') throw new InvalidOptionError('client', 'it must be an SQSClient')
    this.#settings = settings(options)
    const { queueUrl, isFifo, onGroupFailure, waitS, visibilityS, timeoutMs, concurrency, log, logsAll } =
      this.#settings
    const events = new Events(log, logsAll)
    const problem = (doing: string) => (error: unknown) => events.problem(doing, error)
    this.events = events
    this.#queue = new SqsQueue(client, queueUrl)
    this.#groups = new Groups(waitS * 1_000)
    this.#visibility = new Visibility(this.#queue, visibilityS * 1_000, timeoutMs, {
      extended: (held) => {
        events.note('extended', held)
        events.fine('extending visibility')
      },
      expired: (held, why) => this.#expired(held, why),
      problem: problem('extending visibility'),
    })
    const isMoreToCome = () => this.#running.size > 0
    this.#acknowledger = new Acknowledger({
      settings: this.#settings,
      queue: this.#queue,
      visibility: this.#visibility,
      groups: this.#groups,
      events,
      isMoreToCome: () => isMoreToCome() && this.#waiting === 0, // Messages of a group wait for a delete.
      severalForMs: () => this.#receiver.severalForMs(),
    })
    this.#chores = new Chores(this.#settings.chores, new OwnSchedule(), this.#settings.pool, events)
    this.#receiver = new Receiver({
      queue: this.#queue,
      waitS,
      visibilityS,
      room: () => concurrency - this.#running.size - this.#waiting - this.#tooManyEnding(),
      isMoreToCome,
      oneAtATime: () => isFifo && onGroupFailure === 'stop' && this.#groups.isAnyStopped(),
      onReceived: (messages, sentAt) => this.#received(messages, sentAt),
      onAnswered: () => events.fine('receiving'),
      onProblem: problem('receiving'),
      onRefused: (error) => {
        const { name, message } = describeError(error)
        const reason = `SQS returned ${name}: ${message} (${queueUrl})`
        this.#refused = { error: new InvalidOptionError('SqsConsumer.queueUrl', reason, { cause: error }) }
        void this.stop({ grace: 0 })
      },
    })
    const { signals, graceMs } = this.#settings
    this.lifecycle = new Lifecycle({
      signals,
      graceMs,
      start: () => this.#start(),
      close: (ms) => this.#close(ms),
      untilIdle: (ms, hurry) => this.#running.left(ms, hurry),
      abortHandlers: () => {
        for (const held of this.#running) held.stop(new StoppingError())
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
    this.#receiver.more()
  }

  #close(graceMs: number): Promise<unknown> {
    this.events.stopping(this.#running.size, graceMs, this.#settings.signals.length > 0)
    const hungUp = Promise.all([this.#receiver.stop(), this.#chores.stop()])
    this.#handBack(this.#groups.takeAll(), 'stopping')
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

  async #received(messages: readonly Message[], sentAt: number): Promise<void> {
    const { isFifo, visibilityS } = this.#settings
    const received = messages.map((message) => new HeldMessage(message, sentAt, visibilityS * 1_000))
    for (const held of received) {
      this.events.note('received', held)
      if (held.receiveCount > 1) this.events.note('redelivered', held)
    }
    await this.#visibility.hold(received)
    // Also expired ones: each has its turn, which does nothing, so that those behind it in its group do not go on.
    for (const held of received) {
      if (isFifo && !this.#groups.enter(held)) this.#waiting++
      else void this.#process(held)
    }
    if (this.lifecycle.isStopping) this.#handBack(this.#groups.takeAll(), 'stopping')
  }

  #expired(held: HeldMessage, why: string): void {
    this.events.note('expired', held)
    this.events.log('warn', held, `lost its visibility, so SQS may redeliver it: ${why}`)
    if (this.#settings.isFifo) {
      if (this.#settings.onGroupFailure === 'stop') this.#groups.stop(held, held.grantedUntil - monotonicMs())
      this.#stopGroup(held)
      if (this.#groups.remove(held)) this.#waiting--
      else queueMicrotask(() => this.#next(held)) // Those behind it may expire in the same moment and must not begin.
    }
    this.#checkHandlers()
    this.#receiver.more()
  }

  /** SQS redelivers their messages, but all slots are taken by hanging handlers. */
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
    if (!this.#settings.isFifo) return
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
    this.#receiver.databaseIs(there)
    this.#receiver.more()
    try {
      return await this.#acknowledger.settle(held, disposition, monotonicMs() - startedAt)
    } finally {
      this.#acknowledger.open.delete(held)
      this.#receiver.more()
    }
  }

  /** No message of its group may overtake it. */
  #stopGroup(held: HeldMessage): void {
    if (this.#settings.onGroupFailure === 'stop') this.#handBack(this.#groups.takeBehind(held), 'group')
  }

  #handBack(waiting: readonly HeldMessage[], reason: ReturnReason): void {
    this.#waiting -= waiting.length
    for (const held of waiting) void this.#acknowledger.return(held, reason, 0)
  }

  /** If SQS refuses deletes, messages must not fill the memory. */
  #tooManyEnding(): number {
    return Math.max(0, this.#acknowledger.open.size - Math.max(100, this.#settings.concurrency))
  }
}
