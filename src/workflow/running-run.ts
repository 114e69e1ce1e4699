/** The run as its code sees it. */
import type { ClientBase, Pool } from 'pg'
import { checkFunction, checkText } from '../core/check.ts'
import { type Duration, durationMs, intervalText } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { parseInput, type Schema } from '../core/schema.ts'
import { Cancel } from '../core/steering.ts'
import { encodeInput } from '../core/storable.ts'
import type { Lane } from '../db/lane.ts'
import type { JobId } from '../jobs/job.ts'
import { cancelOne } from '../jobs/operator.ts'
import { progress } from '../jobs/outcome.ts'
import type { Call } from './replay.ts'
import { checkRetry } from './retry.ts'
import type { ChildOptions, JobStepOptions, Run, SleepOptions, Step, StepName, StepOptions, Wait } from './run.ts'
import type { Slice } from './slice.ts'
import { checkSignalName } from './start.ts'
import { CHILDREN } from './step.sql.ts'
import { currentStep, resultOf, Steps } from './steps.ts'
import { firstOf, JobWait, SignalWait, SleepWait, Waitable } from './waits.ts'
import type { Workflow } from './workflow.ts'

const NAME_BYTES = 200

type Work<Result> = (step: Step) => Promise<Result> | Result

export class RunningRun implements Run {
  readonly steps: Steps
  readonly #slice: Slice
  readonly #workflow: Workflow
  readonly #lane: Lane
  #undoing: Promise<never> | undefined
  #end: (error: unknown) => void = () => {}
  /** Rejects when run.compensate() has undone what was done. */
  readonly compensated: Promise<never>

  constructor(slice: Slice, workflow: Workflow, lane: Lane, pool: Pool) {
    this.#slice = slice
    this.#workflow = workflow
    this.#lane = lane
    this.steps = new Steps(slice, lane, pool)
    this.compensated = handled(
      new Promise((_, reject) => {
        this.#end = reject
      }),
    )
  }

  /** run.compensate() was called, and decides how the run ends. */
  get isCompensating(): boolean {
    return this.#undoing !== undefined
  }

  get id() {
    return this.#slice.runId
  }

  get jobId() {
    return this.#slice.carrier.claimed.jobId
  }

  get workflow() {
    return this.#workflow.name
  }

  get version() {
    return this.#workflow.version
  }

  step<Result>(name: StepName, options: StepOptions<Result> | Work<Result>, work?: Work<Result>): Promise<Result> {
    return handled(typeof options === 'function' ? this.#step(name, {}, options) : this.#step(name, options, work!))
  }

  tx<Result>(name: StepName, work: (tx: ClientBase) => Promise<Result>): Promise<Result> {
    return handled(this.#tx(name, work))
  }

  sleep(duration: Duration, options: SleepOptions = {}): Wait<void> {
    const ms = durationMs('sleep', duration)
    checkOptions('run.sleep', options, ['name'])
    const named = this.#check('sleep', options.name ?? 'sleep')
    return new SleepWait(this.#slice, this.#slice.call('sleep', named), ms)
  }

  signal<Payload>(name: string, schema?: Schema): Wait<Payload> {
    const named = checkSignalName(this.#check('signal', name))
    return new SignalWait(this.#slice, this.#slice.call('signal', named), schema)
  }

  job<Result>(kind: Kind<never, unknown, Result>, input: unknown, options: JobStepOptions = {}): Wait<Result> {
    if (typeof kind?.name !== 'string') throw new InvalidOptionError('run.job', "pass a kind('name', { … })")
    checkOptions('run.job', options, ['name', 'partitionKey', 'priority', 'delay'])
    const named = this.#check('job', options.name ?? kind.name)
    const { partitionKey, priority = kind.priority, delay } = options
    const ofJob = { queue: kind.queue, max_attempts: kind.maxAttempts, priority, partition_key: partitionKey }
    const delayed = delay === undefined ? {} : { delay: intervalText(durationMs('run.job.delay', delay)) }
    return this.#child<Result>(named, kind as Kind, input, () => ({ ...ofJob, ...delayed }))
  }

  child<Input, Parsed, Result>(
    workflow: Workflow<Input, Parsed, Result>,
    input: unknown,
    options: ChildOptions = {},
  ): Wait<Result> {
    if (typeof workflow?.kind?.name !== 'string') throw new InvalidOptionError('run.child', 'pass a workflow(…)')
    checkOptions('run.child', options, ['name', 'runId'])
    const named = this.#check('child', options.name ?? workflow.name)
    const { kind } = workflow
    return this.#child<Result>(named, kind as Kind, input, ({ nth }) => ({
      queue: kind.queue,
      max_attempts: kind.maxAttempts,
      priority: kind.priority,
      keep_key_for: intervalText(kind.keepKeyMs),
      idempotency_key: options.runId ?? `${this.id}/${named}${nth === 1 ? '' : `#${nth}`}`,
    }))
  }

  any<Choices extends Readonly<Record<string, Wait<unknown>>>>(choices: Choices): Promise<never> {
    return handled(this.#any(choices)) as Promise<never>
  }

  commit(): void {
    this.steps.forgetCompensations()
  }

  compensate(reason: string): Promise<never> {
    return handled(this.#compensate(reason))
  }

  note(value: unknown): Promise<void> {
    return handled(this.#note(value))
  }

  async #compensate(reason: string): Promise<never> {
    checkText('compensate', reason, 1_000)
    this.#undoing ??= this.#undo(reason)
    this.#undoing.catch(this.#end)
    return this.#undoing
  }

  async #undo(reason: string): Promise<never> {
    await this.steps.undo(reason)
    throw new Cancel(reason)
  }

  patched(id: string): boolean {
    const slice = this.#slice
    const call = slice.call('patch', this.#check('patch', id))
    if (call.entry !== undefined) {
      void slice.deliver(call.entry)
      return true
    }
    // The run has done what comes after this line, by the code as it was.
    if (slice.replay.unreached.length > 0) return false
    slice.recordFirst(call)
    return true
  }

  async #note(value: unknown): Promise<void> {
    const slice = this.#slice
    if (!(await slice.isNew())) return
    await slice.gate()
    await slice.busy(async () => {
      if ((await progress(this.#lane, slice.carrier.claimed, value)) === 'refused') await slice.abandon()
    })
  }

  /** Cancels the jobs and runs that this one has started and that have not ended. */
  async cancelChildren(reason: string): Promise<void> {
    const rows = await this.#lane.run<'child_id'>(CHILDREN, [this.jobId])
    for (const row of rows) await cancelOne(this.#lane, row.child_id as JobId, { reason })
  }

  async #step<Result>(name: StepName, options: StepOptions<Result>, work: Work<Result>): Promise<Result> {
    const named = this.#check('step', name)
    checkOptions(`step ${named}`, options, ['retry', 'compensate'])
    checkFunction(`step ${named}`, work)
    const retry = checkRetry(`step ${named}.retry`, options.retry, this.#workflow.retry)
    const call = this.#slice.call('step', named)
    const entry = await this.#slice.alone(call, () => this.steps.run(call, retry, work))
    const result = resultOf(entry) as Result
    if (options.compensate !== undefined) this.steps.compensateBy(call, result, options.compensate, retry)
    return result
  }

  async #tx<Result>(name: StepName, work: (tx: ClientBase) => Promise<Result>): Promise<Result> {
    const named = this.#check('tx', name)
    checkFunction(`tx ${named}`, work)
    const call = this.#slice.call('step', named)
    const run = () => this.steps.runWithin(call, this.#workflow.retry, work)
    return resultOf(await this.#slice.alone(call, run)) as Result
  }

  #child<Result>(
    name: string,
    kind: Kind,
    input: unknown,
    optionsOf: (call: Call) => Readonly<Record<string, unknown>>,
  ): Wait<Result> {
    const slice = this.#slice
    const start = (call: Call) =>
      slice.busy(async () => {
        if (kind.schema !== undefined) await parseInput(kind.name, kind.schema, input)
        const entry = slice.records.newEntry(call, { state: 'waiting' })
        const options = Object.fromEntries(Object.entries(optionsOf(call)).filter(([, value]) => value !== undefined))
        const isOurs = () => slice.carrier.leaseIsOurs()
        const childId = await slice.journal.startChild(entry, kind.name, encodeInput(input), options, isOurs)
        if (childId === undefined) return slice.abandon()
        slice.records.acknowledge(entry)
        return childId
      })
    const call = slice.call('job', name)
    return new JobWait<Result>(slice, call, (entry) => resultOf({ ...entry, name }), start)
  }

  async #any(choices: Readonly<Record<string, Wait<unknown>>>): Promise<unknown> {
    const names = Object.keys(choices)
    if (names.length === 0 || names.some((name) => !(choices[name] instanceof Waitable))) {
      throw new InvalidOptionError('run.any', 'pass waits by name: { paid: run.signal(…), late: run.sleep(…) }')
    }
    const call = this.#slice.call('any', this.#check('any', names.toSorted().join('|')))
    return firstOf(this.#slice, call, choices as Readonly<Record<string, Waitable<unknown>>>)
  }

  #check(what: string, name: StepName): string {
    const step = currentStep()
    if (step !== undefined) {
      const advice = `it was called inside step ${JSON.stringify(step)}; await it beside the step`
      throw new InvalidOptionError(`run.${what}`, advice)
    }
    return checkText(what, Array.isArray(name) ? name.join(' ') : (name as string), NAME_BYTES)
  }
}

/** Code may await it later, or never: its rejection must not end the process. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}
