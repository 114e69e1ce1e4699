import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { MAX_CLAIM } from '../jobs/claim.ts'
import type { RunBatch } from './batch.ts'
import type { BatchJob, Job } from './job.ts'

export interface HandleOptions {
  /** How many jobs of this kind a worker runs at a time, within its own concurrency. Default: no limit of its own. */
  readonly concurrency?: number
  /**
   * When a write guard throws ConcurrentModificationError: cancel the job with reason `concurrent_modification`, because the
   * writer that came first has done its work, or retry it after the kind's first backoff without spending an attempt.
   * Default: cancel.
   */
  readonly onConcurrentModification?: 'cancel' | 'retry'
}

export interface HandleBatchOptions extends HandleOptions {
  /** Jobs in one call at most. Default: 100. */
  readonly size?: number
  /** How many calls of this handler a worker makes at a time, within its own concurrency. Default: no limit of its own. */
  readonly concurrency?: number
}

/** A kind and the function that does its work. What the function returns is stored as the job's result. */
export interface Handler<Input = unknown, Result = unknown> {
  readonly kind: Kind
  readonly run: (job: Job<never>) => unknown
  /** Of a batch handler, in the place of `run`. */
  readonly runBatch: RunBatch | undefined
  /** Jobs in one call at most. */
  readonly size: number
  /** Calls at a time. */
  readonly concurrency: number
  /** A call may have several jobs of a key (inRuns). */
  readonly takesRuns: boolean
  readonly onConcurrentModification: 'cancel' | 'retry'
  /** Its jobs are runs of a workflow. Called when a signal may have come for one of them. */
  readonly onSignal?: () => void
  /** It undoes what a cancelled job did, and then throws Cancel. Any other error is a failure, and the next attempt goes on. */
  readonly undoes?: boolean
  /** Exists only in the types. */
  readonly __types?: { readonly input: Input; readonly result: Result }
}

/** Attaches a handler to a kind, in the worker process only. */
export function handle<Input, Parsed, Result>(
  kind: Kind<Input, Parsed, Result>,
  run: (job: Job<Parsed>) => NoInfer<Result> | Promise<NoInfer<Result>>,
  options: HandleOptions = {},
): Handler<Input, Result> {
  const of = checkHandler('handle', kind, run)
  checkOptions(of, options, ['concurrency', 'onConcurrentModification'])
  return {
    kind: kind as Kind,
    run: run as Handler['run'],
    runBatch: undefined,
    size: 1,
    takesRuns: false,
    ...checkHandleOptions(of, options),
  }
}

/**
 * Attaches a handler that is called with several jobs of the kind: those that start at the same moment, up to `size`. A call takes
 * one slot of the worker. Each job has its own lease, signal, attempt and outcome: `job.succeed(result)` or `job.fail(error)`, and
 * the first counts. When the handler returns, the jobs without an outcome have succeeded; when it throws, they have failed with
 * that error. Of an ordered queue no two jobs in a call have the same key. The signal aborts when no job of the call may go on.
 */
export function handleBatch<Input, Parsed, Result>(
  kind: Kind<Input, Parsed, Result>,
  run: (jobs: readonly BatchJob<Parsed, NoInfer<Result>>[], signal: AbortSignal) => void | Promise<void>,
  options: HandleBatchOptions = {},
): Handler<Input, Result> {
  const of = checkHandler('handleBatch', kind, run)
  checkOptions(of, options, ['size', 'concurrency', 'onConcurrentModification'])
  return {
    kind: kind as Kind,
    run: () => {},
    runBatch: run as unknown as RunBatch,
    size: checkInteger(`${of}.size`, options.size ?? 100, 1, MAX_CLAIM),
    takesRuns: false,
    ...checkHandleOptions(of, options),
  }
}

/**
 * The same batch handler, whose calls may have several jobs of a key, in their order. It must begin none of them before the one before
 * it has succeeded. What is behind a job that has not succeeded goes back, whatever the handler makes of it, and spends no attempt.
 */
export function inRuns<Input, Result>(handler: Handler<Input, Result>): Handler<Input, Result> {
  return { ...handler, takesRuns: true }
}

function checkHandler(name: string, kind: { readonly name: string }, run: unknown): string {
  if (typeof kind?.name !== 'string') throw new InvalidOptionError('kind', "declare it with kind('name', { … })")
  const of = `${name}(${JSON.stringify(kind.name)})`
  if (typeof run !== 'function') throw new InvalidOptionError(of, 'the handler must be a function')
  return of
}

function checkHandleOptions(of: string, options: HandleOptions) {
  const concurrency =
    options.concurrency === undefined
      ? Number.POSITIVE_INFINITY
      : checkInteger(`${of}.concurrency`, options.concurrency, 1, 100_000)
  const { onConcurrentModification = 'cancel' } = options
  if (onConcurrentModification !== 'cancel' && onConcurrentModification !== 'retry') {
    throw new InvalidOptionError(`${of}.onConcurrentModification`, "it must be 'cancel' or 'retry'")
  }
  return { concurrency, onConcurrentModification }
}

/** By name. A kind has one handler. */
export function handlersByKind(handlers: readonly Handler[]): Map<string, Handler> {
  if (!Array.isArray(handlers) || handlers.length === 0) {
    throw new InvalidOptionError('handlers', 'it must be a list of at least one: [handle(kind, async (job) => { … })]')
  }
  const byKind = new Map<string, Handler>()
  for (const handler of handlers) {
    if (typeof handler?.run !== 'function') throw new InvalidOptionError('handlers', 'make them with handle(kind, fn)')
    const { name } = handler.kind
    if (byKind.has(name))
      throw new InvalidOptionError(
        'handlers',
        `two of them handle ${JSON.stringify(name)}; put both into one handle(), or declare a second kind`,
      )
    byKind.set(name, handler)
  }
  return byKind
}
