import type { ConcurrentModificationError } from '../core/errors.ts'
import type { Log, LogEntry } from '../core/log.ts'
import type { JobId } from '../jobs/job.ts'
import type { BlockedKey } from '../jobs/order.ts'
import type { BuryReason } from '../jobs/outcome.ts'
import type { DeadWorker, UnhandledKind } from '../jobs/registry.ts'
import { type CommonEvents, EventHub } from '../runtime/event-hub.ts'
import type { LoopEvents } from '../runtime/loop.ts'
import { CHANNELS } from './channels.ts'
import type { RingChange } from './ring-member.ts'

/** Which job, and which of its claims. Never its input. */
export interface JobInfo {
  readonly jobId: JobId
  readonly kind: string
  readonly queue: string
  readonly partitionKey: string | null
  readonly generation: number
  readonly attempt: number
}

export interface JobTimes {
  /** From when it was due until its handler began. */
  readonly waitMs: number
  /** How long its handler ran; 0 if it did not. */
  readonly durationMs: number
}

export type AbortReason = 'lease_lost' | 'cancelled' | 'timed_out' | 'stopping'
export type DeadLetterReason = 'attempts_exhausted' | 'lease_expired' | 'expired' | 'parked' | BuryReason

/** The events of a worker. An outcome is emitted once it is recorded. */
export interface WorkerEvents extends CommonEvents {
  started: [job: JobInfo & Pick<JobTimes, 'waitMs'>]
  completed: [job: JobInfo & JobTimes]
  /** A failed attempt; the job will be retried. */
  retrying: [job: JobInfo & JobTimes & { readonly error: unknown; readonly delayMs: number }]
  /**
   * A job of this worker, or one that its housekeeping buried: its lease expired too often, or it was not started in time.
   * Then there are no times, and the error is that of the last failed attempt, as it is stored.
   */
  dead_letter: [job: JobInfo & Partial<JobTimes> & { readonly error: unknown; readonly reason: DeadLetterReason }]
  snoozed: [job: JobInfo & JobTimes & { readonly delayMs: number }]
  cancelled: [job: JobInfo & JobTimes]
  /** Released with its attempt: the worker stopped, or could not renew the lease. */
  released: [job: JobInfo & JobTimes]
  /** A write guard found that another writer came first. The job is cancelled, or retried without spending an attempt. */
  concurrent_modification: [job: JobInfo & JobTimes & { readonly error: ConcurrentModificationError }]
  /** The handler's signal was aborted. */
  aborted: [job: JobInfo & { readonly reason: AbortReason }]
  /** An outcome came too late: another worker has the job, or had it. Nothing was changed. */
  refused: [job: JobInfo & { readonly outcome: string }]
  /** An outcome was sent, its reply was lost, and the job left no trace: most likely it was recorded. */
  unknown: [job: JobInfo & { readonly outcome: string }]
  /** This worker's sweep reclaimed jobs from expired leases. */
  recovered: [{ readonly jobs: number; readonly deadLetters: number }]
  /** In an ordered queue, jobs of a key have waited for five minutes behind the same job or dead letter. Once for each. */
  key_waiting: [key: BlockedKey]
  /** Runs of a workflow have been due for a minute, in a version that no live worker handles. Repeated every hour. */
  unhandled_version: [waiting: UnhandledKind]
  /** This worker claims the jobs of these buckets from now on, and no other does. */
  gained: [change: RingChange]
  /** This worker claims no more jobs of these buckets. Those that it holds go on. */
  lost: [change: RingChange]
  /**
   * No worker claims the jobs of these buckets: they have waited for their former owner for long, or no worker has a seat for the
   * queue, and jobs wait. The latter may be emitted by any worker, whatever it handles.
   */
  unowned: [change: RingChange]
  /** Another worker has missed three beats. Emitted by one worker of all, once for each death. */
  worker_died: [worker: DeadWorker]
  /** How this worker learns of new work from now on. */
  wakeup: [{ readonly by: 'listen' | 'poll' }]
}

export class Events extends EventHub<WorkerEvents> {
  readonly #worker: string

  /** `worker`: the label of the worker, which each log entry carries. */
  constructor(log: Log, worker: string) {
    super((entry) => log({ worker, ...entry }), 'trouble with the database:')
    this.#worker = worker
  }

  override hasListeners(name: keyof WorkerEvents): boolean {
    return CHANNELS[name].hasSubscribers || super.hasListeners(name)
  }

  override emit<Name extends keyof WorkerEvents>(name: Name, ...event: WorkerEvents[Name]): void {
    super.emit(name, ...event)
    const channel = CHANNELS[name]
    if (channel.hasSubscribers) channel.publish({ worker: this.#worker, ...event[0] })
  }

  log(entry: LogEntry): void {
    this.toLog(entry)
  }

  logJob(level: LogEntry['level'], message: string, job: JobInfo, error?: unknown, tags: Partial<LogEntry> = {}): void {
    const { jobId, kind, queue, partitionKey, generation, attempt } = job
    const key = partitionKey === null ? {} : { partitionKey }
    this.toLog({ level, message, error, jobId, kind, queue, generation, attempt, ...key, ...tags })
  }

  unowned(change: RingChange): void {
    this.emit('unowned', change)
    const { queue, buckets, epoch } = change
    const message = `${buckets.length} buckets of queue ${queue} wait for their former owner, since epoch ${epoch} of the ring`
    this.toLog({ level: 'warn', message, queue })
  }

  /** Of a loop that does this. */
  about(doing: string): Required<LoopEvents> {
    return {
      problem: (error) => this.problem(doing, error),
      worksAgain: () => this.problems.over(doing, `${doing} works`),
    }
  }
}
