import type { Log, LogEntry } from '../core/log.ts'
import { type CommonEvents, EventHub } from '../runtime/event-hub.ts'
import type { DeadReason, ReturnReason } from './disposition.ts'
import type { HeldMessage } from './held.ts'

/** Identifies the message and its delivery. Never holds its body. */
export interface MessageInfo {
  readonly messageId: string
  readonly rowId?: string
  readonly groupId?: string
  readonly receiveCount: number
}

interface Ended {
  /** Whether the message is known to be deleted. If not, the broker redelivers it, and it is then already handled. */
  readonly deleted: boolean
  /** How long its handler ran. */
  readonly durationMs: number
}

export interface ConsumerEvents extends CommonEvents {
  received: [message: MessageInfo]
  /** Handled by this delivery. */
  handled: [message: MessageInfo & Ended]
  /** Handled by another delivery. `paid`: this one did the work too, before it found the duplicate. */
  already_handled: [message: MessageInfo & Ended & { readonly paid: boolean }]
  /** A write guard found that another writer came first. The message is deleted, and its group goes on. */
  concurrent_modification: [message: MessageInfo & Ended & { readonly error: unknown }]
  /** Its work failed, and the row records the failure. */
  failed: [message: MessageInfo & Ended & { readonly error: unknown }]
  /** It can never be handled, and was sent to the dead-letter queue. */
  dead_letter: [message: MessageInfo & Ended & { readonly reason: DeadReason; readonly error?: unknown }]
  /** The broker redelivers it after this delay; if it has not confirmed that, when the visibility expires at the latest. */
  returned: [
    message: MessageInfo & {
      readonly reason: ReturnReason | DeadReason
      readonly delayMs: number
      /** Whether the broker has confirmed it. */
      readonly confirmed: boolean
      readonly error?: unknown
    },
  ]
  /** Received, and not for the first time. */
  redelivered: [message: MessageInfo]
  /** Its visibility was extended by another timeout. */
  extended: [message: MessageInfo]
  /**
   * Its visibility expired, or its handler hangs: another consumer may receive it. Its signal was aborted; it is not
   * deleted.
   */
  expired: [message: MessageInfo]
}

/** How often each event happened; paid_duplicates are the already_handled ones whose work was done twice. */
export type Counts = Record<Exclude<keyof ConsumerEvents, 'stopping' | 'stopped'> | 'paid_duplicates', number>

/** The name of database problems. */
export const ASKING = 'asking the database'

/** Emits, logs and counts. */
export class Events extends EventHub<ConsumerEvents> {
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
  readonly #logsAll: boolean

  /** `logsAll`: also successes. */
  constructor(log: Log, logsAll: boolean) {
    super(log, 'trouble while')
    this.#logsAll = logsAll
  }

  override emit<Name extends keyof ConsumerEvents>(name: Name, ...event: ConsumerEvents[Name]): void {
    if (name in this.counts) this.counts[name as keyof Counts]++
    super.emit(name, ...event)
  }

  /** Called for each message, so it builds nothing without a listener. */
  note(name: 'received' | 'redelivered' | 'extended' | 'expired', held: HeldMessage): void {
    if (this.hasListeners(name)) this.emit(name, infoOf(held))
    else this.counts[name]++
  }

  /** About one message. */
  log(level: LogEntry['level'], held: HeldMessage, what: string, error?: unknown, tags: Partial<LogEntry> = {}): void {
    if ((level === 'info' || level === 'debug') && !this.#logsAll) return
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

  /** It succeeded: ends the problem of this name, if there was one. Cheap otherwise. */
  fine(doing: string): void {
    this.problems.over(doing, doing === ASKING ? 'the database answers' : `${doing} works`)
  }
}

/** Two consumers in one process share a log. A line about a message has its id; all others get the queue's name. */
export function ofQueue(title: string, queue: string, log: Log): Log {
  return (entry) =>
    log({
      ...entry,
      message: entry.messageId === undefined ? `${title}: ${entry.message}` : entry.message,
      queue,
    })
}

export function infoOf({ delivery: { id, groupId, receiveCount }, rowId }: HeldMessage): MessageInfo {
  const info: { -readonly [Name in keyof MessageInfo]: MessageInfo[Name] } = { messageId: id, receiveCount }
  if (rowId !== undefined) info.rowId = rowId
  if (groupId !== undefined) info.groupId = groupId
  return info
}
