import type { Log, LogEntry } from '../core/log.ts'
import { type CommonEvents, EventHub } from '../runtime/event-hub.ts'
import type { DeadReason, ReturnReason } from './disposition.ts'
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

export interface SqsConsumerEvents extends CommonEvents {
  received: [message: MessageInfo]
  /** Done by this delivery. */
  handled: [message: MessageInfo & Ended]
  /** Done by another delivery. `paid`: this one had done the work, too, before it found out. */
  already_handled: [message: MessageInfo & Ended & { readonly paid: boolean }]
  /** A write guard found that another writer came first. The message is deleted, and its group goes on. */
  concurrent_modification: [message: MessageInfo & Ended & { readonly error: unknown }]
  /** It has failed, and that is recorded in its row. */
  failed: [message: MessageInfo & Ended & { readonly error: unknown }]
  /** It can never be handled, and went to the dead letters. */
  dead_letter: [message: MessageInfo & Ended & { readonly reason: DeadReason; readonly error?: unknown }]
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
}

/** How often each has happened; paid_duplicates are those of already_handled whose work was done twice. */
export type Counts = Record<Exclude<keyof SqsConsumerEvents, 'stopping' | 'stopped'> | 'paid_duplicates', number>

/** What trouble with the database is called. */
export const ASKING = 'asking the database'

/** Counts, too. */
export class Events extends EventHub<SqsConsumerEvents> {
  readonly counts: Counts = {
    received: 0,
    handled: 0,
    already_handled: 0,
    paid_duplicates: 0,
    concurrent_modification: 0,
    failed: 0,
    dead_letter: 0,
    returned: 0,
    redelivered: 0,
    extended: 0,
    expired: 0,
    chore: 0,
    problem: 0,
  }
  readonly #hearsAll: boolean

  /** `hearsAll`: the log wants to know of what goes well, too. */
  constructor(log: Log, hearsAll: boolean) {
    super(log, 'trouble while')
    this.#hearsAll = hearsAll
  }

  override emit<Name extends keyof SqsConsumerEvents>(name: Name, ...event: SqsConsumerEvents[Name]): void {
    if (name in this.counts) this.counts[name as keyof Counts]++
    super.emit(name, ...event)
  }

  /** Of each message, so nothing is made that nobody hears. */
  note(name: 'received' | 'redelivered' | 'extended' | 'expired', held: HeldMessage): void {
    if (this.hasListeners(name)) this.emit(name, infoOf(held))
    else this.counts[name]++
  }

  /** About one message. */
  log(level: LogEntry['level'], held: HeldMessage, what: string, error?: unknown, tags: Partial<LogEntry> = {}): void {
    if ((level === 'info' || level === 'debug') && !this.#hearsAll) return
    const { messageId, rowId, receiveCount } = infoOf(held)
    const row = rowId === undefined ? '' : `, row ${rowId}`
    this.toLog({
      level,
      message: `message ${messageId} (delivery ${receiveCount}${row}) ${what}`,
      messageId,
      receiveCount,
      ...(rowId === undefined ? {} : { rowId }),
      ...(error === undefined ? {} : { error }),
      ...tags,
    })
  }

  /** One went well: if there was trouble with it, that is over. Cheap if not. */
  fine(doing: string): void {
    this.problems.over(doing, doing === ASKING ? 'the database answers' : `${doing} works`)
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
