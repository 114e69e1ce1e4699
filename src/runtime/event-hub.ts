import { EventEmitter } from 'node:events'
import type { Log } from '../core/log.ts'
import { ProblemLog } from './problem-log.ts'

/** Events of every long-running part, beside its own. */
export interface CommonEvents {
  /** A chore ran, and returned these counts. */
  chore: [{ readonly name: string; readonly counts: Readonly<Record<string, number>> }]
  /** A request failed, or was refused. It is retried. */
  problem: [{ readonly doing: string; readonly error: unknown }]
  stopping: []
  stopped: []
}

/** Emits events, and logs. A listener that throws cannot harm the emitter: its error goes to the log. */
export class EventHub<Events extends CommonEvents & { [Name in keyof Events]: unknown[] }> {
  protected readonly toLog: Log
  protected readonly problems: ProblemLog
  readonly #emitter = new EventEmitter({ captureRejections: true })
  readonly #prefix: string

  /** `prefix`: what a problem's log line begins with, before the activity. */
  constructor(log: Log, prefix: string) {
    this.toLog = log
    this.#prefix = prefix
    this.problems = new ProblemLog(log)
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

  /** Asked before an event is built that every job or message has. */
  hasListeners(name: string & keyof Events): boolean {
    return this.#emitter.listenerCount(name) > 0
  }

  emit<Name extends string & keyof Events>(name: Name, ...event: Events[Name]): void {
    if (!this.hasListeners(name)) return
    try {
      this.#emitter.emit(name, ...event)
    } catch (error) {
      this.#listenerFailed(name, error)
    }
  }

  choreDid(name: string, counts: Readonly<Record<string, number>>): void {
    this.#emitCommon('chore', { name, counts })
    this.problems.choreDid(name, counts)
  }

  choreFailed(name: string, error: unknown): void {
    this.#emitCommon('problem', { doing: name, error })
    this.problems.choreFailed(name, error)
  }

  /** Emitted each time, logged when it is news. */
  problem(doing: string, error: unknown): void {
    this.#emitCommon('problem', { doing, error })
    this.problems.requestFailed(doing, `${this.#prefix} ${doing}`, error)
  }

  /** Logged only when the process waits for handlers. */
  stopping(handlers: number, graceMs: number, hasSignals: boolean, who = ''): void {
    this.#emitCommon('stopping')
    if (handlers === 0 || graceMs === 0) return
    const count = handlers === 1 ? '1 handler has' : `${handlers} handlers have`
    const hurry = hasSignals ? '; a second signal aborts them now' : ''
    const message = `${who}stopping: ${count} up to ${Math.round(graceMs / 100) / 10} s to end${hurry}`
    this.toLog({ level: 'warn', message })
  }

  /** `Events` includes them, which the compiler cannot see. */
  #emitCommon<Name extends keyof CommonEvents>(name: Name, ...event: CommonEvents[Name]): void {
    this.emit(name as Name & string & keyof Events, ...(event as never))
  }

  #listenerFailed(name: string, error: unknown): void {
    this.toLog({ level: 'error', message: `a listener of "${name}" threw`, error })
  }
}
