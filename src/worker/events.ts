import { EventEmitter } from 'node:events'
import type { Log, LogEntry } from '../core/log.ts'
import { stoppingWords, Troubles } from '../core/trouble.ts'
import type { JobId } from '../queue/job.ts'
import type { BuryReason } from '../queue/outcome.ts'

/** Which job, and which of its claims. Never its input. */
export interface JobInfo {
  readonly jobId: JobId
  readonly kind: string
  readonly queue: string
  readonly generation: number
  readonly attempt: number
}

export type AbortReason = 'lease_lost' | 'cancelled' | 'timed_out' | 'stopping'
export type DeadLetterReason = 'attempts_exhausted' | BuryReason

/** What a worker tells. An outcome is told once it is recorded. */
export interface WorkerEvents {
  started: [job: JobInfo]
  completed: [job: JobInfo]
  /** A failed attempt; the job will be tried again. */
  retrying: [job: JobInfo & { readonly error: unknown; readonly delayMs: number }]
  dead_letter: [job: JobInfo & { readonly error: unknown; readonly reason: DeadLetterReason }]
  snoozed: [job: JobInfo & { readonly delayMs: number }]
  cancelled: [job: JobInfo]
  /** Handed back with its attempt: the worker stopped, or could not renew the lease. */
  released: [job: JobInfo]
  /** The handler's signal was aborted. */
  aborted: [job: JobInfo & { readonly reason: AbortReason }]
  /** An outcome came too late: somebody else has the job, or had it. Nothing was changed. */
  refused: [job: JobInfo & { readonly tried: string }]
  /** An outcome was sent, its reply was lost, and the job left no trace: most likely it was recorded. */
  unknown: [job: JobInfo & { readonly tried: string }]
  /** Jobs of dead workers were returned by this worker's sweep. */
  recovered: [{ readonly jobs: number; readonly deadLetters: number }]
  /** A chore was done by this worker. */
  chore: [{ readonly name: string; readonly did: Readonly<Record<string, number>> }]
  /** How this worker hears of new work from now on. */
  wakeup: [{ readonly by: 'listen' | 'poll' }]
  /** The database could not be reached, or refused something. It is tried again. */
  problem: [{ readonly doing: string; readonly error: unknown }]
  /** Stops claiming. */
  stopping: []
  stopped: []
}

/** Tells listeners and the log. Neither can harm the worker: what they throw goes to the log, or nowhere. */
export class Events {
  readonly emitter = new EventEmitter<WorkerEvents>({ captureRejections: true })
  readonly #log: Log
  readonly #troubles: Troubles

  constructor(log: Log) {
    this.#log = log
    this.#troubles = new Troubles(log)
    // An async listener that rejects would otherwise end the process.
    Object.assign(this.emitter, {
      [EventEmitter.captureRejectionSymbol]: (error: unknown, name: string) => this.#listenerFailed(name, error),
    })
  }

  /** Whether anybody listens. What happens to every job is told only then. */
  hears(name: keyof WorkerEvents): boolean {
    return this.emitter.listenerCount(name) > 0
  }

  tell<Name extends keyof WorkerEvents>(name: Name, ...event: WorkerEvents[Name]): void {
    if (!this.hears(name)) return
    try {
      ;(this.emitter as EventEmitter).emit(name, ...event)
    } catch (error) {
      this.#listenerFailed(name, error)
    }
  }

  #listenerFailed(name: string, error: unknown): void {
    this.log({ level: 'error', message: `a listener of "${name}" threw`, error })
  }

  log(entry: LogEntry): void {
    this.#log(entry)
  }

  /** Told each time, logged when it is news. */
  problem(doing: string, error: unknown): void {
    this.tell('problem', { doing, error })
    this.#troubles.withRequest(doing, `trouble with the database: ${doing}`, error)
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
  stopping(label: string, handlers: number, graceMs: number, hearsSignals: boolean): void {
    this.tell('stopping')
    if (handlers === 0 || graceMs === 0) return
    this.log({ level: 'warn', message: `worker ${label} is ${stoppingWords(handlers, graceMs, hearsSignals)}` })
  }
}
