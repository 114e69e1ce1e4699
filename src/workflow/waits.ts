/** What a run can wait for: time, a signal, the end of a job. Awaited alone, or as one of several by run.any(). */
import { parseInput, type Schema } from '../core/schema.ts'
import { truncatedAt } from '../core/storable.ts'
import { monotonicMs } from '../core/timer.ts'
import type { JobId } from '../jobs/job.ts'
import { tooLarge } from './errors.ts'
import type { Entry, Signal } from './journal.ts'
import { type Call, hasEnded } from './replay.ts'
import type { Wait } from './run.ts'
import type { Slice } from './slice.ts'

/** What a wait ended with. */
export interface Answer {
  /** JSON text. */
  readonly result: string | null
  /** JSON text: it has failed. */
  readonly error?: string
  /** The signal that has to be consumed. */
  readonly signal?: Signal
}

/**
 * Made by a call of the code; nothing happens before it is awaited or passed to any(). It ends once: what it ended with is its
 * value wherever it is used, awaited or in any(), and however often.
 */
export abstract class Waitable<Result> implements Wait<Result> {
  protected readonly slice: Slice
  readonly call: Call
  readonly #read: (entry: Pick<Entry, 'state' | 'result' | 'error'>) => unknown
  #promise: Promise<Result> | undefined
  #answer: Answer | undefined
  #begun: Promise<void> | undefined

  constructor(slice: Slice, call: Call, read: Waitable<Result>['read']) {
    this.slice = slice
    this.call = call
    this.#read = read
    const { entry } = call
    if (entry !== undefined && hasEnded(entry)) this.#answer = answerOf(entry)
  }

  /** Records what must be known to wait for it, once. Returns the names of signals that may end it. */
  async begin(): Promise<readonly string[]> {
    if (this.#answer !== undefined) return []
    this.#begun ??= this.prepare()
    await this.#begun
    return this.names
  }

  /** Undefined while it has not ended. */
  answer(): Answer | undefined {
    this.#answer ??= this.ready()
    return this.#answer
  }

  /** It was the first of several, in this slice or an earlier one. Awaited from here on it has its value at once. */
  won(entry: Pick<Entry, 'state' | 'result' | 'error'>): void {
    this.#answer ??= answerOf(entry)
    if (this.#promise !== undefined) return
    this.#promise = (async () => this.#read(entry))() as Promise<Result>
    this.#promise.catch(() => {}) // Code may await it later, or never.
  }

  /** The value of a record, or what it throws. */
  read(entry: Pick<Entry, 'state' | 'result' | 'error'>): unknown {
    return this.#read(entry)
  }

  /** Names of the signals that may end it, once it is prepared. */
  protected abstract readonly names: readonly string[]
  /** When it ends by itself, on the monotonic clock. */
  abstract readonly until: number | undefined
  protected abstract prepare(): Promise<void>
  /** Undefined while it has not ended. Takes the signal that ended it, so it is called until it has an answer. */
  protected abstract ready(): Answer | undefined

  // biome-ignore lint/suspicious/noThenProperty: it is awaited, and does nothing before that.
  then<One = Result, Other = never>(
    onResult?: ((result: Result) => One | PromiseLike<One>) | null,
    onError?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<One | Other> {
    if (this.#promise === undefined) {
      this.#promise = this.#wait() as Promise<Result>
      this.#promise.catch(() => {}) // Code may await it later, or never.
    }
    return this.#promise.then(onResult, onError)
  }

  async #wait(): Promise<unknown> {
    const { entry } = this.call
    if (entry !== undefined && hasEnded(entry)) return this.#read(await this.slice.deliver(entry))
    // Also one that was begun: its end is not on record, so everything on record came before it.
    await this.slice.gate(this.call)
    const names = await this.begin()
    await this.slice.signals.prepare(names)
    const answer = await this.slice.wait(names, this.until, () => this.answer())
    return this.#read(await this.slice.record(this.call, recordOf(answer)))
  }
}

function answerOf({ state, result, error }: Pick<Entry, 'state' | 'result' | 'error'>): Answer {
  return state === 'failed' ? { result: null, error: error ?? '{}' } : { result }
}

function recordOf({ result, error, signal }: Answer) {
  const state = error === undefined ? ('recorded' as const) : ('failed' as const)
  return { state, result, error: error ?? null, ...(signal === undefined ? {} : { signalId: signal.id }) }
}

/** Its beginning is on record, for its time, and its end, for its place among the results of other branches. */
export class SleepWait extends Waitable<void> {
  readonly #ms: number
  #until: number | undefined

  constructor(slice: Slice, call: Call, ms: number) {
    super(slice, call, () => undefined)
    this.#ms = ms
    this.#until = call.entry?.wakeAt
  }

  protected readonly names = []

  get until() {
    return this.#until
  }

  protected async prepare(): Promise<void> {
    if (this.#until !== undefined) return
    const { wakeAt } = await this.slice.record(this.call, { state: 'waiting', wakeMs: this.#ms })
    this.#until = wakeAt
  }

  protected ready(): Answer | undefined {
    return this.#until !== undefined && this.#until <= monotonicMs() ? { result: null } : undefined
  }
}

export class SignalWait<Payload> extends Waitable<Payload> {
  protected readonly names: readonly string[]
  readonly until = undefined

  constructor(slice: Slice, call: Call, schema: Schema | undefined) {
    super(slice, call, async ({ result }) => {
      const payload = result === null ? undefined : JSON.parse(result)
      return schema === undefined ? payload : parseInput(`signal ${call.name}`, schema, payload)
    })
    this.names = [call.name]
  }

  protected async prepare(): Promise<void> {}

  protected ready(): Answer | undefined {
    const signal = this.slice.signals.take(this.call.name)
    return signal === undefined ? undefined : { result: signal.payload, signal }
  }
}

interface ChildEnd {
  readonly status: string
  readonly result?: unknown
  readonly error?: unknown
}

export class JobWait<Result> extends Waitable<Result> {
  readonly until = undefined
  readonly #start: (call: Call) => Promise<JobId>
  #childId: JobId | undefined

  constructor(slice: Slice, call: Call, read: Waitable<Result>['read'], start: (call: Call) => Promise<JobId>) {
    super(slice, call, read)
    this.#start = start
    this.#childId = call.entry?.childId
  }

  /** As leasehold.notify_parent() names it. */
  protected get names() {
    return [`job ${this.#childId}`]
  }

  protected async prepare(): Promise<void> {
    this.#childId ??= await this.#start(this.call)
  }

  protected ready(): Answer | undefined {
    const signal = this.slice.signals.take(this.names[0]!)
    if (signal === undefined) return undefined
    const { status, result, error }: ChildEnd = JSON.parse(signal.payload!)
    const limitBytes = status === 'completed' ? truncatedAt(result) : undefined
    if (limitBytes !== undefined) {
      return { result: null, error: tooLarge(`the result of job ${this.#childId}`, limitBytes), signal }
    }
    if (status === 'completed') return { result: JSON.stringify(result ?? null), signal }
    const description =
      typeof error === 'object' && error !== null ? error : { name: status, message: String(error ?? '') }
    return { result: null, error: JSON.stringify(description), signal }
  }
}

/** The first of several waits, by name. What it was is on record, so it stays the first. */
export async function firstOf(
  slice: Slice,
  call: Call,
  waits: Readonly<Record<string, Waitable<unknown>>>,
): Promise<{ readonly name: string; readonly value: unknown }> {
  const entry = call.entry === undefined ? await waitForFirst(slice, call, waits) : await slice.deliver(call.entry)
  const { name, result, error }: First = JSON.parse(entry.result!)
  const wait = waits[name]!
  const ended = { state: error === null ? ('recorded' as const) : ('failed' as const), result, error }
  wait.won(ended)
  return { name, value: await wait.read(ended) }
}

/** JSON texts inside of JSON. */
interface First {
  readonly name: string
  readonly result: string | null
  readonly error: string | null
}

async function waitForFirst(
  slice: Slice,
  call: Call,
  waits: Readonly<Record<string, Waitable<unknown>>>,
): Promise<Entry> {
  await slice.gate(call)
  const all = Object.entries(waits)
  const names: string[] = []
  for (const [, wait] of all) names.push(...(await wait.begin()))
  const ready = () => {
    for (const [name, wait] of all) {
      const answer = wait.answer()
      if (answer !== undefined) return { name, answer }
    }
    return undefined
  }
  const until = Math.min(...all.map(([, wait]) => wait.until ?? Number.POSITIVE_INFINITY))
  await slice.signals.prepare(names)
  const { name, answer } = await slice.wait(names, until === Number.POSITIVE_INFINITY ? undefined : until, ready)
  const { result, error = null, signal } = answer
  const first: First = { name, result, error }
  const consumed = signal === undefined ? {} : { signalId: signal.id }
  return slice.record(call, { state: 'recorded', result: JSON.stringify(first), ...consumed })
}
