import { EventEmitter } from 'node:events'
import type { Log } from '../core/log.ts'
import { stoppingWords, ProblemLog } from './problem-log.ts'

/** What all that runs for long tells, beside its own. */
export interface CommonEvents {
  /** A chore was done, and what it did. */
  chore: [{ readonly name: string; readonly did: Readonly<Record<string, number>> }]
  /** Something could not be reached, or refused something. It is tried again. */
  problem: [{ readonly doing: string; readonly error: unknown }]
  stopping: []
  stopped: []
}

/** Tells listeners and the log. Neither can harm whoever tells: what they throw goes to the log, or nowhere. */
export class EventHub<Events extends CommonEvents & { [Name in keyof Events]: unknown[] }> {
  protected readonly toLog: Log
  protected readonly troubles: ProblemLog
  readonly #emitter = new EventEmitter({ captureRejections: true })
  readonly #trouble: string

  /** `trouble`: how a problem is called in the log, before what was being done. */
  constructor(log: Log, trouble: string) {
    this.toLog = log
    this.#trouble = trouble
    this.troubles = new ProblemLog(log)
    // An async listener that rejects would otherwise end the process.
    Object.assign(this.#emitter, {
      [EventEmitter.captureRejectionSymbol]: (error: unknown, name: string) => this.#listenerFailed(name, error),
    })
  }

  on<Name extends string & keyof Events>(name: Name, listener: (...event: Events[Name]) => void): void {
    this.#emitter.on(name, listener as () => void)
  }

  off<Name extends string & keyof Events>(name: Name, listener: (...event: Events[Name]) => void): void {
    this.#emitter.off(name, listener as () => void)
  }

  /** Whether anybody listens. What happens to every job or message is told only then. */
  hears(name: string & keyof Events): boolean {
    return this.#emitter.listenerCount(name) > 0
  }

  tell<Name extends string & keyof Events>(name: Name, ...event: Events[Name]): void {
    if (!this.hears(name)) return
    try {
      this.#emitter.emit(name, ...event)
    } catch (error) {
      this.#listenerFailed(name, error)
    }
  }

  choreDid(name: string, did: Readonly<Record<string, number>>): void {
    this.#tellCommon('chore', { name, did })
    this.troubles.choreDid(name, did)
  }

  choreFailed(name: string, error: unknown): void {
    this.#tellCommon('problem', { doing: name, error })
    this.troubles.withChore(name, error)
  }

  /** Told each time, logged when it is news. */
  problem(doing: string, error: unknown): void {
    this.#tellCommon('problem', { doing, error })
    this.troubles.withRequest(doing, `${this.#trouble} ${doing}`, error)
  }

  /** Tells it, and logs it where somebody may have to wait for handlers. */
  stopping(handlers: number, graceMs: number, hearsSignals: boolean, who = ''): void {
    this.#tellCommon('stopping')
    if (handlers === 0 || graceMs === 0) return
    this.toLog({ level: 'warn', message: `${who}${stoppingWords(handlers, graceMs, hearsSignals)}` })
  }

  /** Events has them, but that is more than the compiler can see. */
  #tellCommon<Name extends keyof CommonEvents>(name: Name, ...event: CommonEvents[Name]): void {
    this.tell(name as Name & string & keyof Events, ...(event as never))
  }

  #listenerFailed(name: string, error: unknown): void {
    this.toLog({ level: 'error', message: `a listener of "${name}" threw`, error })
  }
}
