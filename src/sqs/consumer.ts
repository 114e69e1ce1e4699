/**
 * A consumer of one SQS queue.
 *
 *   receiver ──messages──► groups ──► fate: body, handler ──► deletes, dead letters, returns
 *                            visibility: extends all that is held, and gives up in time
 *
 * A message is held from the moment it is received until it is known to be deleted, or visible to others again. Nothing is
 * deleted before the handler has answered, and a handler answers when it knows what was committed (decisions/0023).
 */
import type { Message } from '@aws-sdk/client-sqs'
import { backoffMs } from '../core/backoff.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError, StoppingError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { Batches } from './batches.ts'
import { Crowd } from './crowd.ts'
import { type Counts, Events, infoOf, type SqsConsumerEvents } from './events.ts'
import { type DeadReason, type Fate, fateOf, type ReturnReason } from './fate.ts'
import { Groups } from './groups.ts'
import { HeldMessage } from './held.ts'
import { MOST_S, type Settings, type SqsConsumerOptions, settings } from './options.ts'
import { type SqsClient, SqsQueue } from './queue.ts'
import { Receiver } from './receiver.ts'
import { Visibility } from './visibility.ts'

/** After their signal was aborted, handlers have this long to end by themselves. */
const STOPPED_FOR_MS = 1_000
/** What is left to tell SQS when no handler runs any more. */
const LAST_WORDS_MS = 10_000
/** SQS takes no more on a message. */
const ATTRIBUTES_AT_MOST = 10

interface Return {
  readonly held: HeldMessage
  readonly seconds: number
}

export class SqsConsumer<Body = unknown> {
  readonly #settings: Settings
  readonly #queue: SqsQueue
  readonly #events: Events
  readonly #receiver: Receiver
  readonly #visibility: Visibility
  readonly #groups = new Groups()
  readonly #deletes: Batches<HeldMessage>
  readonly #returns: Batches<Return>
  /** Their handlers run. */
  readonly #running = new Crowd<HeldMessage>()
  /** Received, and their turn in their group has not come. */
  #waiting = 0
  /** Handled, or not to be, and SQS does not know yet. */
  readonly #ending = new Crowd<HeldMessage>()
  readonly #hurry = new AbortController()
  #isStopping = false
  #run: Promise<void> | undefined
  #stopped: Promise<void> | undefined
  #end: () => void = () => {}

  constructor(client: SqsClient, options: SqsConsumerOptions<Body>) {
    if (typeof client?.send !== 'function') throw new InvalidOptionError('client', 'it must be an SQSClient')
    this.#settings = settings(options)
    const { queueUrl, waitS, visibilityS, concurrency, log } = this.#settings
    const events = new Events(log)
    const problem = (doing: string) => (error: unknown) => events.problem(doing, error)
    this.#events = events
    this.#queue = new SqsQueue(client, queueUrl)
    this.#visibility = new Visibility(this.#queue, visibilityS * 1_000, {
      extended: (held) => events.tell('extended', infoOf(held)),
      expired: (held) => {
        events.tell('expired', infoOf(held))
        events.log('warn', held, 'could not be kept invisible, and may be delivered to somebody else')
      },
      problem: problem('extending visibility'),
    })
    this.#deletes = new Batches(
      (batch) => this.#queue.delete(batch.map(({ receipt }) => receipt)),
      (held) => !held.isGone && this.#visibility.isInTime(held),
      problem('deleting'),
    )
    this.#returns = new Batches(
      (batch) => this.#queue.changeVisibility(batch.map(({ held, seconds }) => ({ receipt: held.receipt, seconds }))),
      ({ held }) => this.#visibility.isInTime(held),
      problem('handing back'),
    )
    this.#receiver = new Receiver({
      queue: this.#queue,
      waitS,
      visibilityS,
      room: () => concurrency - this.#running.size - this.#waiting - this.#tooManyEnding(),
      onReceived: (messages, sentAt) => this.#received(messages, sentAt),
      onProblem: problem('receiving'),
    })
  }

  /** What has happened so far. */
  counts(): Counts {
    return { ...this.#events.counts }
  }

  on<Name extends keyof SqsConsumerEvents>(name: Name, listener: (...event: SqsConsumerEvents[Name]) => void): this {
    this.#events.emitter.on(name, listener as never)
    return this
  }

  off<Name extends keyof SqsConsumerEvents>(name: Name, listener: (...event: SqsConsumerEvents[Name]) => void): this {
    this.#events.emitter.off(name, listener as never)
    return this
  }

  /** Consumes until it is stopped, by a signal or by stop(). A consumer runs once. */
  run(): Promise<void> {
    this.#run ??= this.#consume()
    return this.#run
  }

  /**
   * Receives no more, lets handlers end within the grace period, and hands back the rest, visible at once. Called again with a
   * grace of 0 it waits for handlers no longer.
   */
  async stop(options: { readonly grace?: Duration } = {}): Promise<void> {
    checkOptions('stop', options, ['grace'])
    const graceMs = options.grace === undefined ? this.#settings.graceMs : durationMs('stop.grace', options.grace)
    if (graceMs === 0) this.#hurry.abort()
    this.#isStopping = true
    this.#stopped ??= this.#drain(graceMs)
    await this.#stopped
    await this.#run
  }

  async #consume(): Promise<void> {
    if (this.#isStopping) return
    const ended = new Promise<void>((resolve) => {
      this.#end = resolve
    })
    const { signals } = this.#settings
    const onSignal = () => {
      // The second does not wait, a third is Node's own business.
      if (this.#isStopping) unhook()
      void this.stop(this.#isStopping ? { grace: 0 } : {})
    }
    const unhook = () => {
      for (const signal of signals) process.off(signal, onSignal)
    }
    for (const signal of signals) process.on(signal, onSignal)
    this.#visibility.start()
    this.#receiver.more()
    await ended
    unhook()
    this.#events.tell('stopped')
  }

  async #drain(graceMs: number): Promise<void> {
    this.#events.tell('stopping')
    const hungUp = this.#receiver.stop()
    this.#handBack(this.#groups.takeAll(), 'stopping')
    await this.#running.left(graceMs, this.#hurry.signal)
    for (const held of this.#running) held.stop(new StoppingError())
    await this.#running.left(STOPPED_FOR_MS)
    await hungUp
    for (const held of [...this.#running].reverse()) void this.#return(held, 'stopping', 0)
    await this.#ending.left(LAST_WORDS_MS)
    this.#deletes.giveUp()
    this.#returns.giveUp()
    await this.#visibility.stop()
    this.#end()
  }

  async #received(messages: readonly Message[], sentAt: number): Promise<void> {
    const received = messages.map((message) => new HeldMessage(message, sentAt))
    for (const held of received) {
      this.#events.counts.received++
      if (held.receiveCount > 1) this.#events.tell('redelivered', infoOf(held))
    }
    await this.#visibility.hold(received)
    // Also what could not be kept: it has its turn, in which nothing is done, and those behind it in its group must not go on.
    for (const held of received) {
      if (this.#queue.isFifo && !this.#groups.enter(held)) this.#waiting++
      else void this.#process(held)
    }
    if (this.#isStopping) this.#handBack(this.#groups.takeAll(), 'stopping')
  }

  async #process(held: HeldMessage): Promise<void> {
    const isDeleted = await this.#handle(held)
    this.#visibility.release(held)
    if (!this.#queue.isFifo) return
    if (!isDeleted && this.#settings.onGroupFailure === 'stop') this.#handBack(this.#groups.takeBehind(held), 'group')
    const next = this.#groups.leave(held)
    if (next === undefined) return
    this.#waiting--
    void this.#process(next)
  }

  /** Whether it is known to be deleted. */
  async #handle(held: HeldMessage): Promise<boolean> {
    // Its time ran out before its turn; or it came in when we had already hung up.
    if (held.isGone) return false
    if (this.#isStopping) return this.#return(held, 'stopping', 0)
    this.#running.add(held)
    const fate = await fateOf(held, this.#settings, this.#settings.handle)
    this.#ending.add(held)
    this.#running.delete(held)
    this.#receiver.databaseIs(fate.end !== 'return' || fate.reason !== 'database')
    this.#receiver.more()
    const isDeleted = await this.#settle(held, fate)
    this.#ending.delete(held)
    this.#receiver.more()
    return isDeleted
  }

  async #settle(held: HeldMessage, fate: Fate): Promise<boolean> {
    if (fate.end === 'dead') return this.#bury(held, fate.reason, fate.error)
    if (fate.end === 'return') {
      const { reason, error } = fate
      return this.#return(held, reason, fate.delayMs ?? backoffMs(held.receiveCount, this.#settings.backoff), error)
    }
    const deleted = await this.#delete(held)
    const info = { ...infoOf(held), deleted }
    if (fate.as === 'failed') {
      this.#events.log('warn', held, 'failed, as its row says', fate.error)
      this.#events.tell('failed', { ...info, error: fate.error })
    } else this.#events.tell(fate.as, info)
    return deleted
  }

  async #delete(held: HeldMessage): Promise<boolean> {
    held.isEnding = true
    const deleted = await this.#deletes.add(held)
    if (!deleted) this.#events.log('warn', held, 'could not be deleted: it comes again, and is already handled')
    return deleted
  }

  /** Visible to others after this long. Answers that it was not deleted. */
  async #return(
    held: HeldMessage,
    reason: ReturnReason | DeadReason,
    delayMs: number,
    error?: unknown,
  ): Promise<boolean> {
    this.#visibility.release(held)
    if (held.isGone) return false
    const seconds = Math.min(Math.ceil(delayMs / 1_000), MOST_S)
    held.isGone = true // From here on its receipt is for this one call.
    this.#ending.add(held)
    await this.#returns.add({ held, seconds })
    this.#ending.delete(held)
    const because = error === undefined ? {} : { error }
    this.#events.log(reason === 'threw' ? 'warn' : 'info', held, `comes again in ${seconds} s: ${reason}`, error)
    this.#events.tell('returned', { ...infoOf(held), reason, delayMs: seconds * 1_000, ...because })
    return false
  }

  #handBack(waiting: readonly HeldMessage[], reason: ReturnReason): void {
    this.#waiting -= waiting.length
    for (const held of waiting) void this.#return(held, reason, 0)
  }

  async #bury(held: HeldMessage, reason: DeadReason, error: unknown): Promise<boolean> {
    const { deadLetterQueueUrl: url, backoff } = this.#settings
    if (held.isGone) return false
    this.#events.log('error', held, `can never be handled: ${reason}`, error)
    if (url === undefined) return this.#return(held, reason, backoff.maxMs, error)
    const noted = { reason: { DataType: 'String', StringValue: reason } }
    const kept = Object.entries(held.attributes).slice(0, ATTRIBUTES_AT_MOST - Object.keys(noted).length)
    try {
      await this.#queue.sendDeadLetter({
        url,
        body: held.text,
        attributes: { ...Object.fromEntries(kept), ...noted },
        messageId: held.id,
        groupId: held.groupId,
      })
    } catch (problem) {
      this.#events.problem('sending a dead letter', problem)
      return this.#return(held, 'dead_letter_not_sent', backoffMs(held.receiveCount, backoff), problem)
    }
    const deleted = await this.#delete(held)
    this.#events.tell('dead', { ...infoOf(held), deleted, reason, ...(error === undefined ? {} : { error }) })
    return deleted
  }

  /** A queue that takes no deletes must not fill the memory. */
  #tooManyEnding(): number {
    return Math.max(0, this.#ending.size - Math.max(100, this.#settings.concurrency))
  }
}
