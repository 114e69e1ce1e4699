/**
 * Keeps held messages invisible to other consumers, and detects when that may have failed.
 *
 * A visibility timeout is a lease (runtime/lease-keeper.ts), unless the machine sleeps: our clock stops then. A message
 * whose deadline passes without an extension is given up, since its receipt may be outdated.
 *
 * A long receive may have brought the message at its beginning or at its end, so little of the timeout is certain. Then the
 * message is extended before it is handled.
 *
 * A broker may limit how long it hides a message in all; SQS does, to twelve hours. Extensions use up the rest; when nothing
 * is left, the message stays held until its last extension ends.
 */

import { setMaxListeners } from 'node:events'
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Refusal } from '../runtime/batcher.ts'
import { LeaseKeeper } from '../runtime/lease-keeper.ts'
import type { Broker } from './broker.ts'
import type { HeldMessage } from './held.ts'

const SIDE_BY_SIDE = 16
const CONFIRMATIONS = 2
const RECEIVED_LATE = 'it was received late and could not be extended'

export interface VisibilityEvents {
  extended(held: HeldMessage): void
  /** Another consumer may receive it now. */
  expired(held: HeldMessage, why: string): void
  problem(error: unknown): void
}

export class Visibility {
  readonly #broker: Broker
  readonly #timeoutMs: number
  readonly #handlerMs: number
  readonly #events: VisibilityEvents
  readonly #keeper: LeaseKeeper<HeldMessage>
  readonly #running = new Set<HeldMessage>()
  readonly #overdue = new Alarm(() => this.#giveUpHung())
  readonly #stopping = new AbortController()

  /** `handlerMs`: a handler that takes longer counts as hung. */
  constructor(broker: Broker, timeoutMs: number, handlerMs: number, events: VisibilityEvents) {
    this.#broker = broker
    this.#timeoutMs = timeoutMs
    this.#handlerMs = handlerMs
    this.#events = events
    this.#keeper = new LeaseKeeper(timeoutMs, {
      renew: (due) => this.#extendAll([...due]),
      expired: (held) => this.#expire(held, 'it could not be extended in time'),
      grantMs: (held, now) => broker.secondsFor(held, now, timeoutMs) * 1_000,
      problem: (error) => this.#problem(error),
    })
    setMaxListeners(0, this.#stopping.signal) // One per request; Node would warn at eleven.
  }

  start(): void {
    this.#keeper.start()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#keeper.stop()
    this.#overdue.set(Number.POSITIVE_INFINITY)
  }

  /** Holds the messages of one receive, except those whose visibility is uncertain: they are gone. */
  async hold(received: readonly HeldMessage[]): Promise<void> {
    for (const held of received) this.#keeper.granted(held, held.grantedUntil)
    const [first] = received
    if (first === undefined) return
    if (first.deadline - monotonicMs() < this.#timeoutMs / 3) await this.#confirm(received)
    for (const held of received) if (!held.isGone) this.#keeper.keep(held)
  }

  /** Its handler begins now; its time limit counts from here. */
  begin(held: HeldMessage): void {
    held.startedAt = monotonicMs()
    this.#running.add(held)
    this.#overdue.setEarlier(held.startedAt + this.#handlerMs)
  }

  /** Stops extending it: it was deleted or returned. */
  release(held: HeldMessage): void {
    this.#keeper.release(held)
    this.#running.delete(held)
  }

  /** Its receipt is certainly the latest. */
  isInTime(held: HeldMessage): boolean {
    return monotonicMs() < held.deadline
  }

  async #extendAll(due: HeldMessage[]): Promise<void> {
    const problems: unknown[] = []
    const takeTurns = async () => {
      while (due.length > 0)
        await this.#extend(due.splice(0, this.#broker.batch)).catch((error) => problems.push(error))
    }
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, takeTurns))
    if (problems.length > 0) throw problems[0]
  }

  /** Gives up the messages that are not confirmed afterwards. */
  async #confirm(received: readonly HeldMessage[]): Promise<void> {
    let unsure = received
    for (let attempt = 1; attempt <= CONFIRMATIONS && unsure.length > 0; attempt++) {
      const asked = unsure
      try {
        const refusals = await this.#ask(asked)
        for (const { index, forGood } of refusals) if (forGood) this.#expire(asked[index]!, RECEIVED_LATE)
        unsure = refusals.filter(({ forGood }) => !forGood).map(({ index }) => asked[index]!)
      } catch (error) {
        this.#problem(error)
      }
    }
    for (const held of unsure) this.#expire(held, RECEIVED_LATE)
  }

  /** Extensions count from now. Returns the refused entries. */
  async #ask(batch: readonly HeldMessage[]): Promise<readonly Refusal[]> {
    const sentAt = monotonicMs()
    const entries = batch.map((held) => ({
      receipt: held.delivery.receipt,
      seconds: this.#broker.secondsFor(held, sentAt, this.#timeoutMs),
    }))
    const withinMs = Math.min(Math.max(this.#timeoutMs / 3, 500), this.#broker.answerMs)
    const asking = this.#broker.extend(entries, withinMs, this.#stopping.signal)
    const answered = asking.catch(() => {})
    for (const held of batch) held.asking = answered
    const refusals = await asking
    const refused = new Set(refusals.map(({ index }) => index))
    batch.forEach((held, index) => {
      if (!refused.has(index)) this.#keeper.granted(held, sentAt + entries[index]!.seconds * 1_000)
    })
    return refusals
  }

  async #extend(due: readonly HeldMessage[]): Promise<void> {
    const batch = due.filter((held) => this.#keeper.isKept(held)) // Others were returned or deleted meanwhile.
    if (batch.length === 0) return
    const refusals = await this.#ask(batch)
    const refused = new Map(refusals.map((refusal) => [refusal.index, refusal]))
    batch.forEach((held, index) => {
      if (!this.#keeper.isKept(held)) return
      const refusal = refused.get(index)
      if (refusal === undefined) this.#events.extended(held)
      // It is no longer in flight, or its delete was just carried out.
      else if (refusal.forGood && !held.isEnding)
        this.#expire(held, `${this.#broker.name} refused to extend it: ${refusal.code}`)
    })
    const again = refusals.find(({ forGood }) => !forGood)
    if (again !== undefined) throw new Error(`${this.#broker.name} did not extend a message: ${again.code}`)
  }

  #giveUpHung(): void {
    const now = monotonicMs()
    let next = Number.POSITIVE_INFINITY
    for (const held of [...this.#running]) {
      if (held.startedAt === undefined || !this.#keeper.isKept(held)) continue
      const overdueAt = held.startedAt + this.#handlerMs
      if (overdueAt <= now) this.#expire(held, 'its handler exceeded its timeout')
      else next = Math.min(next, overdueAt)
    }
    this.#overdue.set(next)
  }

  #expire(held: HeldMessage, why: string): void {
    this.release(held)
    held.expire(
      new Error(
        `The visibility of message ${held.delivery.id} expired: ${why}. Drop the work; ${this.#broker.name} will redeliver it.`,
      ),
    )
    this.#events.expired(held, why)
  }

  /** Requests aborted by stop() are not problems. */
  #problem(error: unknown): void {
    if (!this.#stopping.signal.aborted) this.#events.problem(error)
  }
}
