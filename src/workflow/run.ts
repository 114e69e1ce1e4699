import type { ClientBase } from 'pg'
import type { Duration } from '../core/duration.ts'
import type { Kind } from '../core/kind.ts'
import type { Schema, SchemaOutput } from '../core/schema.ts'
import type { JobId } from '../jobs/job.ts'
import type { RetryOption } from './retry.ts'
import type { Workflow } from './workflow.ts'

/** A name, or its parts: `['ask-review', order.id]`. Two steps that run at the same time need different names. */
export type StepName = string | readonly (string | number)[]

export interface StepOptions<Result = unknown> {
  /** Default: the workflow's. */
  readonly retry?: RetryOption
  /** Undoes the step. Compensations run in reverse order when the run fails or is cancelled, each as a step of its own. */
  readonly compensate?: (result: Result, step: Step) => unknown
}

/** What the function of a step gets. */
export interface Step {
  /** 1 for the first. */
  readonly attempt: number
  /** For services that take idempotency keys: the same on every attempt of this step. */
  readonly effectKey: string
  /** Aborted when the lease is lost, the run is cancelled, fails or ends, its time is over, or the worker stops. Pass it on. */
  readonly signal: AbortSignal
}

/** Something that a run waits for. Await it, or pass it to run.any(). */
export interface Wait<Result> extends PromiseLike<Result> {
  /** Exists only in the types. */
  readonly __waited?: Result
}

export interface SleepOptions {
  /** Tells it from others when the code is changed. Default: sleep, and sleeps are counted. */
  readonly name?: StepName
}

export interface JobStepOptions {
  /** Default: the kind's name. */
  readonly name?: StepName
  readonly partitionKey?: string
  readonly priority?: number
  readonly delay?: Duration
}

export interface ChildOptions {
  /** Default: the workflow's name. */
  readonly name?: StepName
  /** Default: made from the id of this run and the name. */
  readonly runId?: string
}

type Results<Choices> = {
  [Name in keyof Choices]: {
    readonly name: Name
    readonly value: Choices[Name] extends Wait<infer Value> ? Value : never
  }
}[keyof Choices]

/** What the code of a workflow gets. */
export interface Run {
  readonly id: string
  readonly jobId: JobId
  readonly workflow: string
  readonly version: number
  /** Does the work once: when the run resumes, the recorded result is returned. It is returned as JSON, also the first time. */
  step<Result>(name: StepName, work: (step: Step) => Promise<Result> | Result): Promise<Result>
  step<Result>(
    name: StepName,
    options: StepOptions<Result>,
    work: (step: Step) => Promise<Result> | Result,
  ): Promise<Result>
  /** A step in a transaction of this database: its writes and its record commit together, so they happen exactly once. */
  tx<Result>(name: StepName, work: (tx: ClientBase) => Promise<Result>): Promise<Result>
  /** Sleeps for seconds or months. While it waits, the run has no process. */
  sleep(duration: Duration, options?: SleepOptions): Wait<void>
  /** The next signal of this name that was sent to the run, also if it came early. */
  signal<Payload = unknown>(name: string): Wait<Payload>
  signal<S extends Schema>(name: string, schema: S): Wait<SchemaOutput<S>>
  /** Enqueues a job, and waits for its result. Throws StepFailedError if it is cancelled or becomes a dead letter. */
  job<Input, Result>(kind: Kind<Input, unknown, Result>, input: NoInfer<Input>, options?: JobStepOptions): Wait<Result>
  /** Starts a run of another workflow, and waits for its result. Throws IdempotencyConflictError if its id has another input. */
  child<Input, Parsed, Result>(
    workflow: Workflow<Input, Parsed, Result>,
    input: NoInfer<Input>,
    options?: ChildOptions,
  ): Wait<Result>
  /** Waits for the first of several. The winner is recorded; a signal that came later stays for the next wait. */
  any<Choices extends Readonly<Record<string, Wait<unknown>>>>(choices: Choices): Promise<Results<Choices>>
  /** What was done so far is not compensated any more. A step behind this that has a compensation is. */
  commit(): void
  /** Undoes what was done, in reverse order, and ends the run as cancelled, with this reason. */
  compensate(reason: string): Promise<never>
  /** True for runs that reach this line for the first time with the changed code, false for those that have passed it. */
  patched(id: string): boolean
  /** A note for people, shown with the run. */
  note(value: unknown): Promise<void>
}
