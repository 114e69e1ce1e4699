import { EventEmitter } from 'node:events'
import type { Log, LogEntry } from '../core/log.ts'
import { stoppingWords, Troubles } from '../core/trouble.ts'
import type { DeadReason, ReturnReason } from './fate.ts'
import type { HeldMessage } from './held.ts'

/** Which message, and which of its deliveries. Never its body. */
export interface MessageInfo {
  readonly messageId: string
  readonly rowId?: string
  readonly groupId?: string
  readonly receiveCount: number
}

interface Ended {
  /** Whether the message is known to be deleted. If not it comes again, and is already handled. */
  readonly deleted: boolean
  /** How long its handler took. */
  readonly durationMs: number
}

export interface SqsConsumerEvents {
  received: [message: MessageInfo]
  /** Done by this delivery. */
  handled: [message: MessageInfo & Ended]
  /** Done by another one: a duplicate. */
  already_handled: [message: MessageInfo & Ended]
  /** It has failed, and that is recorded in its row. */
  failed: [message: MessageInfo & Ended & { readonly error: unknown }]
  /** It can never be handled, and went to the dead letters. */
  dead: [message: MessageInfo & Ended & { readonly reason: DeadReason; readonly error?: unknown }]
  /** It comes again, after this long; or, where SQS could not be told, when its visibility ends. */
  returned: [
    message: MessageInfo & {
      readonly reason: ReturnReason | DeadReason
      readonly delayMs: number
      readonly told: boolean
      readonly error?: unknown
    },
  ]
  /** Received, and not for the first time. */
  redelivered: [message: MessageInfo]
  /** Kept invisible for another timeout. */
  extended: [message: MessageInfo]
  /** It could not be kept invisible, or its handler hangs: somebody else may have it. Its signal was aborted, and it is not deleted from here. */
  expired: [message: MessageInfo]
  /** One was done, and what it did. */
  chore: [{ readonly name: string; readonly did: Readonly<Record<string, number>> }]
  /** SQS or the database could not be reached, or SQS refused something. */
  problem: [{ readonly doing: string; readonly error: unknown }]
  stopping: []
  stopped: []
}

/** How often each has happened. */
export type Counts = Record<Exclude<keyof SqsConsumerEvents, 'stopping' | 'stopped'>, number>

/** What trouble with the database is called. */
export const ASKING = 'asking the database'

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
    chore: 0,
    problem: 0,
  }
  readonly #log: Log
  readonly #hearsAll: boolean
  readonly #troubles: Troubles

  /** `hearsAll`: the log wants to know of what goes well, too. */
  constructor(log: Log, hearsAll: boolean) {
    this.#log = log
    this.#hearsAll = hearsAll
    this.#troubles = new Troubles(log)
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

  /** Of each message, so nothing is made that nobody hears. */
  note(name: 'received' | 'redelivered' | 'extended' | 'expired', held: HeldMessage): void {
    if (this.emitter.listenerCount(name) > 0) this.tell(name, infoOf(held))
    else this.counts[name]++
  }

  /** About one message. */
  log(level: LogEntry['level'], held: HeldMessage, what: string, error?: unknown): void {
    if (level === 'info' && !this.#hearsAll) return
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

  /** A request to SQS or to the database failed. Told each time, logged when it is news. */
  problem(doing: string, error: unknown): void {
    this.tell('problem', { doing, error })
    this.#troubles.withRequest(doing, `trouble while ${doing}`, error)
  }

  /** One went well: if there was trouble with it, that is over. Cheap if not. */
  fine(doing: string): void {
    this.#troubles.over(doing, doing === ASKING ? 'the database answers' : `${doing} works`)
  }

  choreDid(name: string, did: Readonly<Record<string, number>>): void {
    this.tell('chore', { name, did })
    this.#troubles.choreDid(name, did)
  }

  choreFailed(name: string, error: unknown): void {
    this.tell('problem', { doing: name, error })
    this.#troubles.withChore(name, error)
  }

  /** Tells it, and logs it where somebody may have to wait for handlers. */
  stopping(handlers: number, graceMs: number, hearsSignals: boolean): void {
    this.tell('stopping')
    if (handlers === 0 || graceMs === 0) return
    this.#log({ level: 'warn', message: stoppingWords(handlers, graceMs, hearsSignals) })
  }

  #listenerFailed(name: string, error: unknown): void {
    this.#log({ level: 'error', message: `a listener of "${name}" threw`, error })
  }
}

/** Two consumers in one process share a log. What is about a message is known by its id; all else gets the queue's name. */
export function ofQueue(queue: string, log: Log): Log {
  return (entry) =>
    log({
      ...entry,
      message: entry.messageId === undefined ? `SQS queue ${queue}: ${entry.message}` : entry.message,
      queue,
    })
}

export function infoOf({ id, rowId, groupId, receiveCount }: HeldMessage): MessageInfo {
  const info: { -readonly [Name in keyof MessageInfo]: MessageInfo[Name] } = { messageId: id, receiveCount }
  if (rowId !== undefined) info.rowId = rowId
  if (groupId !== undefined) info.groupId = groupId
  return info
}
