/** The public face: what producers, scripts and worker processes call. */

import { InvalidOptionError } from './core/errors.ts'
import type { Kind } from './core/kind.ts'
import { CONNECTION, Connection, type ConnectionOptions } from './db/connection.ts'
import { migrate } from './db/migrate.ts'
import type { Tx } from './db/tx.ts'
import { inTurn } from './db/tx-line.ts'
import { assertLease } from './effects/lease.ts'
import { type Effect, type EffectFinding, type EffectSettled, listEffects, settleEffect } from './effects/ledger.ts'
import {
  type CallOptions,
  checkEnqueueOptions,
  checkManyOptions,
  type EnqueueOptions,
  type ManyOptions,
} from './enqueue-options.ts'
import { type Attempt, listAttempts } from './inspect/attempts.ts'
import { getJobs, type JobSnapshot, type ListOptions, listJobs } from './inspect/jobs.ts'
import { type QueueStats, type StatsOptions, stats } from './inspect/stats.ts'
import { type Finished, type WaitForOptions, waitFor } from './inspect/wait-for.ts'
import { type Why, why } from './inspect/why.ts'
import {
  type FleetEvent,
  type FleetEventsFilter,
  listFleetEvents,
  listWorkers,
  type WorkerSnapshot,
  type WorkersFilter,
} from './inspect/workers.ts'
import { type Declaration, kindsOf, storeConfiguration } from './jobs/configuration.ts'
import type { Conflicting, Enqueued } from './jobs/enqueue.ts'
import { type Maintained, maintain } from './jobs/housekeeping.ts'
import type { JobId } from './jobs/job.ts'
import {
  type ByOption,
  type CancelOptions,
  type CancelOutcome,
  cancelOne,
  type RedriveFilter,
  redriveWhich,
} from './jobs/operator.ts'
import {
  type BlockedKey,
  type BlockedKeysFilter,
  blockedKeys,
  type KeyTarget,
  type UnblockOutcome,
  unblock,
} from './jobs/order.ts'
import { type PauseOutcome, type PauseTarget, pause, type ResumeOutcome, resume } from './jobs/pause.ts'
import { type Owner, ownerOf } from './jobs/ring.ts'
import { storeJobs } from './store-jobs.ts'
import { checkHealth, type Health, type HealthOptions } from './telemetry/health.ts'
import { warnOfStranded } from './worker/compare-configuration.ts'
import type { Handler } from './worker/handler.ts'
import type { Job } from './worker/job.ts'
import { type ClaimOptions, type ManualJob, ManualWorker } from './worker/manual.ts'
import type { WorkerOptions } from './worker/options.ts'
import type { Tally } from './worker/outcome-events.ts'
import { UnhandledKinds, warnsOfUnhandledKinds } from './worker/unhandled-kinds.ts'
import { Worker } from './worker/worker.ts'

export class Leasehold {
  readonly #connection: Connection
  /** Undefined until the first claim by hand. */
  #byHand: ManualWorker | undefined
  readonly #unhandled: UnhandledKinds | undefined

  constructor(options: ConnectionOptions) {
    this.#connection = new Connection(options)
    const { lane, log } = this.#connection
    if (warnsOfUnhandledKinds()) this.#unhandled = new UnhandledKinds(lane, log)
  }

  /** For the parts of other subpaths, such as an Inbox. */
  get [CONNECTION](): Connection {
    return this.#connection
  }

  /** Brings the database to this version's schema. Safe to call at every start, by any number of processes. */
  async migrate(): Promise<void> {
    await migrate(this.#connection.pool, { schema: this.#connection.schema })
  }

  /**
   * Stores kinds and queues, and this Leasehold's `retention`, for every process and for SQL. Call it after migrate() or in a
   * deploy step, never in a worker that starts. What it does not name stays, and so do pauses. Safe to repeat. Logs a warning
   * for pending jobs in a queue that their kind has left.
   */
  async configure(declarations: readonly Declaration[]): Promise<void> {
    const { lane, retention, log } = this.#connection
    await storeConfiguration(lane, declarations, retention)
    await warnOfStranded(lane, kindsOf(declarations), log)
  }

  /**
   * Stores a job. Throws InvalidInputError or ValueNotStorableError before anything is sent, and IdempotencyConflictError if the
   * key belongs to a job with another input.
   */
  enqueue<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    input: NoInfer<Input>,
    options: EnqueueOptions & { readonly onConflict: 'return' },
  ): Promise<Enqueued<Result> | Conflicting>
  enqueue<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<Enqueued<Result>>
  async enqueue<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    input: NoInfer<Input>,
    options: EnqueueOptions = {},
  ): Promise<Enqueued<Result> | Conflicting> {
    checkEnqueueOptions(options)
    const { tx, onConflict, ...job } = options
    return (await storeJobs(this.#connection, kind, [{ ...job, input }], { tx, onConflict }, this.#unhandled))[0]!
  }

  /**
   * Stores up to 10,000 jobs of a kind, all or none, and returns their outcomes in the same order. Inputs are read until it resolves, so
   * they must not be changed before.
   */
  enqueueMany<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    jobs: readonly ManyOptions<NoInfer<Input>>[],
    options: CallOptions & { readonly onConflict: 'return' },
  ): Promise<(Enqueued<Result> | Conflicting)[]>
  enqueueMany<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    jobs: readonly ManyOptions<NoInfer<Input>>[],
    options?: CallOptions,
  ): Promise<Enqueued<Result>[]>
  async enqueueMany<Input, Result>(
    kind: Kind<Input, unknown, Result>,
    jobs: readonly ManyOptions<NoInfer<Input>>[],
    options: CallOptions = {},
  ): Promise<(Enqueued<Result> | Conflicting)[]> {
    checkManyOptions(jobs, options)
    return storeJobs(this.#connection, kind, jobs, options, this.#unhandled)
  }

  /** The job as it stands. Undefined: unknown id, past its retention, or `keep: false`. */
  async get<Result = unknown>(jobId: JobId<Result> | string): Promise<JobSnapshot<Result> | undefined> {
    const [job] = await getJobs(this.#connection.lane, [jobId as JobId])
    return job as JobSnapshot<Result> | undefined
  }

  /** Newest first. */
  list(options: ListOptions = {}): Promise<JobSnapshot[]> {
    return listJobs(this.#connection.lane, options)
  }

  /**
   * Resolves when the job is completed, cancelled or a dead letter. Throws TimedOutError after `timeout`
   * (default: 30s), JobNotFoundError when there is none.
   */
  waitFor<Result = unknown>(jobId: JobId<Result> | string, options?: WaitForOptions): Promise<Finished<Result>> {
    return waitFor(this.#connection.lane, jobId as JobId, options) as Promise<Finished<Result>>
  }

  /**
   * A pending job is cancelled, a running one is asked to stop. not_found: it has ended, or there is no such job. The reason is
   * kept with the job, `by` in the record of operator actions.
   */
  cancel(jobId: string, options?: CancelOptions): Promise<CancelOutcome> {
    return cancelOne(this.#connection.lane, jobId as JobId, options)
  }

  /**
   * No job of this queue or kind starts from now on, in any process. Jobs that a worker has claimed and not started are
   * released, with no attempt spent: at once by a worker that listens, within 5 s by others. Running jobs go on.
   */
  pause(target: PauseTarget, options?: ByOption): Promise<PauseOutcome> {
    return pause(this.#connection.lane, target, options)
  }

  /** Jobs of this queue or kind start again. Workers that listen are woken. */
  resume(target: PauseTarget, options?: ByOption): Promise<ResumeOutcome> {
    return resume(this.#connection.lane, target, options)
  }

  /** Which worker claims the jobs of this key, in a queue on the ring. Undefined: any worker does, or none has a seat. */
  ownerOf(queue: string, partitionKey: string): Promise<Owner | undefined> {
    return ownerOf(this.#connection.lane, queue, partitionKey)
  }

  /** Keys of an ordered queue in which jobs wait behind another, those that have waited longest first. */
  blockedKeys(filter: BlockedKeysFilter): Promise<BlockedKey[]> {
    return blockedKeys(this.#connection.lane, filter)
  }

  /** A key goes on without the dead letters that block it. They stay dead letters; redriven later, they go to its back. */
  unblock(target: KeyTarget, options?: ByOption): Promise<UnblockOutcome> {
    return unblock(this.#connection.lane, target, options)
  }

  /**
   * Dead letters become pending jobs again, with fresh attempts. Returns the ids of those that this call revived. In an
   * ordered queue one that blocks its key goes first, with what was parked behind it; any other goes to the back of its key.
   */
  redrive(which: string | readonly string[] | RedriveFilter, options?: ByOption): Promise<JobId[]> {
    return redriveWhich(this.#connection.lane, which, options)
  }

  /** How much work each queue has. Counts stop at `countTo`, so it is cheap at millions of jobs. */
  stats(options?: StatsOptions): Promise<QueueStats[]> {
    return stats(this.#connection.lane, options)
  }

  /** Why a job does not run, or what became of it: `because` for code, `sentence` for people. */
  why(jobId: string): Promise<Why> {
    return why(this.#connection.lane, jobId)
  }

  /**
   * The attempts of a job that have ended, oldest first: kept for the retention of `attempts`, and the successful one as long
   * as the job.
   */
  attempts(jobId: string): Promise<Attempt[]> {
    return listAttempts(this.#connection.lane, jobId as JobId)
  }

  /** The effects of a job, oldest first. Kept while the job can run, and for the retention of `effects` after that. */
  effects(jobId: string): Promise<Effect[]> {
    return listEffects(this.#connection.lane, jobId as JobId)
  }

  /**
   * Records whether an effect happened that was begun and whose end is not on record; then redrive the job. Returns
   * `processing`, and changes nothing, while a worker has the job.
   */
  settleEffect(jobId: string, name: string, finding: EffectFinding & ByOption): Promise<EffectSettled> {
    return settleEffect(this.#connection.lane, jobId as JobId, name, finding)
  }

  /** Worker processes, those that run first. Without a `state`, all that have not stopped. */
  workers(filter?: WorkersFilter): Promise<WorkerSnapshot[]> {
    return listWorkers(this.#connection.lane, filter)
  }

  /** What happened to the fleet, newest first: workers joined, drained, left, died and returned. */
  fleetEvents(filter?: FleetEventsFilter): Promise<FleetEvent[]> {
    return listFleetEvents(this.#connection.lane, filter)
  }

  /** Holds the lease of a claimed job until your transaction ends, or throws LeaseLostError. */
  async assertLease(tx: Tx, job: Pick<Job, 'id' | 'claimId' | 'generation'>): Promise<void> {
    const lease = { jobId: job.id, claimId: job.claimId, generation: job.generation }
    const lane = this.#connection.lane.within(tx)
    await inTurn(tx, () => assertLease(lane, lease))
  }

  /** A worker for these kinds. Nothing happens before its run(). */
  worker(handlers: readonly Handler[], options?: WorkerOptions): Worker {
    return new Worker(this.#connection, handlers, options)
  }

  /** For scripts and tests: runs jobs until none is left to claim, and returns how many had which outcome. */
  drain(handlers: readonly Handler[], options?: WorkerOptions): Promise<Tally> {
    return this.#runUntil('empty', handlers, options)
  }

  /** For serverless: runs one batch of at most `concurrency` jobs, and returns how many had which outcome. */
  runOnce(handlers: readonly Handler[], options?: WorkerOptions): Promise<Tally> {
    return this.#runUntil('once', handlers, options)
  }

  /** For loops of your own: claims jobs, whose outcomes are then yours to record. */
  claim<Output>(
    kinds: Kind<unknown, Output> | readonly Kind<unknown, Output>[],
    options?: ClaimOptions,
  ): Promise<ManualJob<Output>[]> {
    const list: readonly Kind<unknown, Output>[] = Array.isArray(kinds) ? kinds : [kinds]
    if (list.length === 0 || list.some((kind) => typeof kind?.name !== 'string')) {
      throw new InvalidOptionError('kinds', "declare them with kind('name', { … })")
    }
    for (const kind of list) this.#connection.kinds.see(kind as Kind)
    this.#byHand ??= new ManualWorker(this.#connection)
    return this.#byHand.claim(list, options) as Promise<ManualJob<Output>[]>
  }

  /**
   * Whether this process can work, for /healthz (`live`) and /readyz (`ready`). Never throws for a database that is away: the
   * answer has the reason.
   */
  health(options?: HealthOptions): Promise<Health> {
    return checkHealth(this.#connection, options)
  }

  /** Makes and drops daily partitions. For the owner of the tables, every day, if workers run as another role. */
  maintain(): Promise<Maintained> {
    return maintain(this.#connection.lane)
  }

  /** Ends the connections, unless the pool is yours. Stop workers first. */
  async close(): Promise<void> {
    this.#unhandled?.stop()
    await this.#byHand?.stop()
    await this.#connection.close()
  }

  async #runUntil(end: 'empty' | 'once', handlers: readonly Handler[], options?: WorkerOptions): Promise<Tally> {
    const worker = new Worker(this.#connection, handlers, options, end)
    await worker.run()
    return { ...worker.tally }
  }
}
