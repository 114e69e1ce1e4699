import { EventEmitter } from 'node:events'
import type { Log, LogEntry } from '../core/log.ts'
import { monotonicMs } from '../core/timer.ts'
import type { DeadReason, ReturnReason } from './fate.ts'
import type { HeldMessage } from './held.ts'

/** Which message, and which of its deliveries. Never its body. */
export interface MessageInfo {
  readonly messageId: string
  readonly rowId?: string
  readonly groupId?: string
  readonly receiveCount: number
}

/** Whether the message is known to be deleted. If not it comes again, and is already handled. */
type Deleted = { readonly deleted: boolean }

export interface SqsConsumerEvents {
  /** Done by this delivery. */
  handled: [message: MessageInfo & Deleted]
  /** Done by another one: a duplicate. */
  already_handled: [message: MessageInfo & Deleted]
  /** It has failed, and that is recorded in its row. */
  failed: [message: MessageInfo & Deleted & { readonly error: unknown }]
  /** It can never be handled, and went to the dead letters. */
  dead: [message: MessageInfo & Deleted & { readonly reason: DeadReason; readonly error?: unknown }]
  /** It comes again, after this long. */
  returned: [
    message: MessageInfo & {
      readonly reason: ReturnReason | DeadReason
      readonly delayMs: number
      readonly error?: unknown
    },
  ]
  /** Received, and not for the first time. */
  redelivered: [message: MessageInfo]
  /** Kept invisible for another timeout. */
  extended: [message: MessageInfo]
  /** It could not be kept invisible: somebody else may have it. Its handler was aborted, and it is not deleted from here. */
  expired: [message: MessageInfo]
  /** SQS could not be reached, or refused something. */
  problem: [{ readonly doing: string; readonly error: unknown }]
  stopping: []
  stopped: []
}

/** How often each has happened. */
export type Counts = Record<Exclude<keyof SqsConsumerEvents, 'stopping' | 'stopped'> | 'received', number>

const SAME_AGAIN_MS = 30_000

/** Counts, and tells listeners and the log. Neither can harm the consumer. */
export class Events {
  readonly emitter = new EventEmitter<SqsConsumerEvents>({ captureRejections: true })
  readonly counts: Counts = {
    received: 0,
    handled: 0,
    already_handled: 0,
    failed: 0,
    dead: 0,
    returned: 0,
    redelivered: 0,
    extended: 0,
    expired: 0,
    problem: 0,
  }
  readonly #log: Log
  readonly #problems = new Map<string, number>()

  constructor(log: Log) {
    this.#log = log
    Object.assign(this.emitter, {
      [EventEmitter.captureRejectionSymbol]: (error: unknown, name: string) => this.#listenerFailed(name, error),
    })
  }

  tell<Name extends keyof SqsConsumerEvents>(name: Name, ...event: SqsConsumerEvents[Name]): void {
    if (name in this.counts) this.counts[name as keyof Counts]++
    if (this.emitter.listenerCount(name) === 0) return
    try {
      ;(this.emitter as EventEmitter).emit(name, ...event)
    } catch (error) {
      this.#listenerFailed(name, error)
    }
  }

  /** About one message. Errors are not quoted: they may hold what is in the body. */
  log(level: LogEntry['level'], held: HeldMessage, what: string, error?: unknown): void {
    const { messageId, rowId, receiveCount } = infoOf(held)
    const row = rowId === undefined ? '' : `, row ${rowId}`
    this.#log({
      level,
      message: `message ${messageId} (delivery ${receiveCount}${row}) ${what}`,
      messageId,
      receiveCount,
      ...(rowId === undefined ? {} : { rowId }),
      ...(error === undefined ? {} : { error }),
    })
  }

  /** Told each time, logged now and then. */
  problem(doing: string, error: unknown): void {
    this.tell('problem', { doing, error })
    const last = this.#problems.get(doing)
    if (last !== undefined && monotonicMs() - last < SAME_AGAIN_MS) return
    this.#problems.set(doing, monotonicMs())
    this.#log({ level: 'warn', message: `trouble with SQS: ${doing}; trying again`, error })
  }

  #listenerFailed(name: string, error: unknown): void {
    this.#log({ level: 'error', message: `a listener of "${name}" threw`, error })
  }
}

export function infoOf({ id, rowId, groupId, receiveCount }: HeldMessage): MessageInfo {
  return {
    messageId: id,
    receiveCount,
    ...(rowId === undefined ? {} : { rowId }),
    ...(groupId === undefined ? {} : { groupId }),
  }
}
