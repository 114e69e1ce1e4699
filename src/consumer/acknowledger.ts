/** Ends messages: deletes, dead-letters or returns them. Each event is emitted after the broker has replied. */
import { backoffMs } from '../core/backoff.ts'
import { monotonicMs } from '../core/timer.ts'
import { Batcher } from '../runtime/batcher.ts'
import { DrainableSet } from '../runtime/drainable-set.ts'
import type { Broker } from './broker.ts'
import type { DeadReason, Disposition, ReturnReason } from './disposition.ts'
import { ASKING, type Events, infoOf } from './events.ts'
import type { Groups } from './groups.ts'
import type { HeldMessage } from './held.ts'
import type { ConsumerSettings } from './settings.ts'
import type { Visibility } from './visibility.ts'

export interface AcknowledgerParts {
  readonly settings: ConsumerSettings
  readonly broker: Broker
  readonly visibility: Visibility
  readonly groups: Groups
  readonly events: Events
  /** Whether other messages may end any moment. */
  readonly isMoreToCome: () => boolean
  /** For how long an open receive may still bring several messages at once. */
  readonly severalForMs: () => number
}

interface Return {
  readonly held: HeldMessage
  readonly seconds: number
  /** When it was first sent without a reply: the broker may have counted from then. */
  lostAt?: number
}

export class Acknowledger {
  readonly #parts: AcknowledgerParts
  readonly #deletes: Batcher<HeldMessage>
  readonly #returns: Batcher<Return>
  /** Ended here, and the broker has not confirmed yet. */
  readonly open = new DrainableSet<HeldMessage>()

  constructor(parts: AcknowledgerParts) {
    this.#parts = parts
    const { broker, visibility, events, isMoreToCome } = parts
    const isAboutOneEntry = (error: unknown) => broker.isAboutOneEntry(error)
    const common = { most: broker.batch, isAboutOneEntry, isMoreToCome }
    this.#deletes = new Batcher({
      ...common,
      send: (batch) => broker.acknowledge(batch.map(({ delivery }) => delivery.receipt)),
      isWanted: (held) => !held.isGone && visibility.isInTime(held),
      onAnswered: () => events.fine('deleting'),
      onProblem: (error) => events.problem('deleting', error),
    })
    this.#returns = new Batcher({
      ...common,
      send: async (batch) => {
        const sentAt = monotonicMs()
        try {
          return await broker.release(batch.map(({ held, seconds }) => ({ receipt: held.delivery.receipt, seconds })))
        } catch (error) {
          if (broker.mayHaveBeenDone(error)) for (const one of batch) one.lostAt ??= sentAt
          throw error
        }
      },
      // Once it may be visible, another consumer may have it, and a second request would take it from that consumer.
      isWanted: ({ held, seconds, lostAt = Number.POSITIVE_INFINITY }) =>
        visibility.isInTime(held) && monotonicMs() < lostAt + seconds * 1_000,
      onAnswered: () => events.fine('returning'),
      onProblem: (error) => events.problem('returning', error),
    })
  }

  /** Requests that the broker refuses from now on are not retried. */
  giveUp(): void {
    this.#deletes.giveUp()
    this.#returns.giveUp()
  }

  /** Returns whether the message is known to be deleted. */
  async settle(held: HeldMessage, disposition: Disposition, durationMs: number): Promise<boolean> {
    if (disposition.end === 'dead_letter') return this.#bury(held, disposition.reason, durationMs, disposition.error)
    if (disposition.end === 'return') {
      const {
        reason,
        error,
        note,
        delayMs = backoffMs(held.delivery.receiveCount, this.#parts.settings.backoff),
      } = disposition
      return this.return(held, reason, delayMs, error, note)
    }
    const deleted = await this.#delete(held)
    const info = Object.assign(infoOf(held), { deleted, durationMs })
    if (disposition.as === 'failed') {
      const [level, what] = disposition.givenUp
        ? (['error', 'failed, with no retry; its row stays in error'] as const)
        : (['warn', 'failed; its row records the error'] as const)
      this.#parts.events.log(level, held, what, disposition.error)
      this.#parts.events.emit('failed', { ...info, error: disposition.error })
    } else if (disposition.as === 'concurrent_modification') {
      const { error } = disposition
      this.#parts.events.log('warn', held, 'yielded to another writer', error, { concurrentModification: true })
      this.#parts.events.emit('concurrent_modification', { ...info, error })
    } else if (disposition.as === 'already_handled') {
      const { paid } = disposition
      if (paid) this.#parts.events.counts.paid_duplicates++
      this.#parts.events.log(
        'debug',
        held,
        paid ? 'was already handled; its work was done twice' : 'was already handled',
      )
      this.#parts.events.emit('already_handled', { ...info, paid })
    } else {
      this.#parts.events.log('debug', held, 'was handled')
      this.#parts.events.emit('handled', info)
    }
    return deleted
  }

  async #delete(held: HeldMessage): Promise<boolean> {
    held.isEnding = true
    const deleted = await this.#deletes.add(held)
    if (!deleted) {
      const because = held.isGone ? 'its visibility expired' : `${this.#parts.broker.name} refused`
      this.#parts.events.log('warn', held, `was not deleted (${because}); it will be redelivered`)
    }
    return deleted
  }

  /** Makes the message visible after this delay. Returns false: it was not deleted. */
  async return(
    held: HeldMessage,
    reason: ReturnReason | DeadReason,
    delayMs: number,
    error?: unknown,
    note?: string,
  ): Promise<boolean> {
    this.#parts.visibility.release(held)
    if (held.isGone) {
      if (error !== undefined)
        this.#parts.events.log('warn', held, `ended after its visibility expired: ${reason}`, error)
      return false
    }
    held.isGone = true // From here on only this request uses its receipt.
    this.open.add(held)
    await held.asking // An extension that arrives later would override the return.
    const { settings, broker, groups, severalForMs } = this.#parts
    const isHead = settings.isGrouped && reason !== 'group_stopped' && reason !== 'stopping'
    // A receive that brought it along with those behind it would cost them a delivery each, so the open ones end first.
    const isWearing =
      isHead && settings.onGroupFailure === 'stop' && (held.delivery.receiveCount > 1 || groups.isAnyBehind(held))
    const seconds = broker.secondsFor(held, monotonicMs(), isWearing ? Math.max(delayMs, severalForMs()) : delayMs)
    if (isWearing) groups.stop(held, seconds * 1_000)
    const confirmed = await this.#returns.add({ held, seconds })
    this.open.delete(held)
    if (reason === 'database') this.#parts.events.problem(ASKING, error)
    const isTrouble = reason === 'threw' || (reason.startsWith('row_') && held.delivery.receiveCount > 2)
    const why = note === undefined ? reason : `${reason}, ${note}`
    this.#parts.events.log(isTrouble ? 'warn' : 'info', held, `will be redelivered in ${seconds} s: ${why}`, error)
    const because = error === undefined ? {} : { error }
    this.#parts.events.emit('returned', { ...infoOf(held), reason, delayMs: seconds * 1_000, confirmed, ...because })
    return false
  }

  async #bury(held: HeldMessage, reason: DeadReason, durationMs: number, error: unknown): Promise<boolean> {
    const { broker, settings } = this.#parts
    const { backoff, isGrouped, onGroupFailure } = settings
    const report = (then: string) =>
      this.#parts.events.log('error', held, `can never be handled: ${reason}; ${then}`, error)
    if (held.isGone) {
      report('its visibility expired, so it will be redelivered')
      return false
    }
    if (broker.deadLetters === undefined) {
      const meanwhile = isGrouped && onGroupFailure === 'stop' ? ', and its group waits for it' : ''
      report(`no ${broker.deadLettersOption} is set, so it will be redelivered${meanwhile}`)
      return this.return(held, reason, backoff.maxMs, error)
    }
    try {
      await broker.bury(held, reason)
    } catch (problem) {
      this.#parts.events.problem('sending a dead letter', problem)
      report('it could not be sent to the dead-letter queue, so it will be redelivered')
      return this.return(held, 'dead_letter_not_sent', backoffMs(held.delivery.receiveCount, backoff), problem)
    }
    this.#parts.events.fine('sending a dead letter')
    report(`sent to ${broker.deadLetters}`)
    const deleted = await this.#delete(held)
    const because = error === undefined ? {} : { error }
    this.#parts.events.emit('dead_letter', { ...infoOf(held), deleted, durationMs, reason, ...because })
    return deleted
  }
}
