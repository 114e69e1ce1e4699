import { type BackoffOption, checkBackoff } from './backoff.ts'
import { checkInteger } from './check.ts'
import { type Duration, durationMs } from './duration.ts'
import { InvalidOptionError } from './errors.ts'
import type { IsJson } from './json.ts'
import { checkOptions } from './options.ts'
import { checkName } from './queue.ts'
import type { Schema, SchemaInput, SchemaOutput } from './schema.ts'

export interface KindOptions {
  /** Any Standard Schema (Zod, Valibot, ArkType …): checked at enqueue, parsed at claim. Default: anything JSON holds. */
  readonly input?: Schema | undefined
  /** The queue that workers claim from. Default: the kind's name. */
  readonly queue?: string
  /**
   * Its queue runs the jobs of a partition key one after the other. An enqueue throws if the database has the queue otherwise.
   * Default: as the database has it.
   */
  readonly ordered?: true
  /** 0 first, 9 last. Default: 5. */
  readonly priority?: number
  /** Failed attempts before the job becomes a dead letter. Default: 5. */
  readonly maxAttempts?: number
  /** The delay after a failure: doubles from `first` up to `max`, a quarter of it random. Default: 1s, 1h. */
  readonly backoff?: BackoffOption
  /** A handler that runs longer is aborted; if it is still running 5 s later, the attempt has failed. Default: 1h. */
  readonly timeout?: Duration
  /** How long completed jobs can be looked up, at most 90d. False: not at all. Default: 7d. */
  readonly keep?: Duration | false
  /** How long an idempotency key is remembered after its job has finished. Default: 24h. */
  readonly keepKey?: Duration
}

const KEPT_AT_MOST_MS = 90 * 86_400_000

const KNOWN = ['input', 'queue', 'ordered', 'priority', 'maxAttempts', 'backoff', 'timeout', 'keep', 'keepKey'] as const

/**
 * A kind of job: producers enqueue it, handlers run it. Input is the argument of enqueue, Parsed the schema's output for
 * the handler, Result the handler's return value, as JSON.
 */
export interface Kind<Input = unknown, Parsed = Input, Result = unknown> {
  readonly name: string
  readonly queue: string
  readonly ordered: boolean
  readonly priority: number
  readonly maxAttempts: number
  readonly backoff: { readonly firstMs: number; readonly maxMs: number }
  readonly timeoutMs: number
  readonly keepMs: number | false
  readonly keepKeyMs: number
  readonly schema: Schema<Input, Parsed> | undefined
  /** Declares the return type of handlers, for `handle`, `waitFor` and `get`. Only the types change. */
  returns<Declared>(...notJson: IsJson<Declared, [], ['a result must be JSON']>): Kind<Input, Parsed, Declared>
  /** Exists only in the types. */
  readonly __result?: Result
}

/** Only a schema's input is stored, so only it must be JSON. */
type JsonInput<S extends Schema> = IsJson<SchemaInput<S>, unknown, { readonly 'an input must be JSON': never }>

/** Declares a kind of job, once, in a module that producers and workers share. Touches no database. */
export function kind<S extends Schema>(
  name: string,
  options: KindOptions & { readonly input: S & JsonInput<S> },
): Kind<SchemaInput<S>, SchemaOutput<S>>
export function kind<Input = unknown>(
  name: IsJson<Input, string, 'an input must be JSON: declare a Date as a string, a Map as an object'>,
  options?: KindOptions & { readonly input?: undefined },
): Kind<Input, Input>
export function kind(name: string, options: KindOptions = {}): Kind {
  checkName('name', name)
  if (options?.queue !== undefined) checkName(`kind(${JSON.stringify(name)}).queue`, options.queue)
  return declareKind(name, options)
}

/** With any name. */
export function declareKind(name: string, options: KindOptions): Kind {
  const of = `kind(${JSON.stringify(name)})`
  checkOptions(of, options, KNOWN)
  if (options.input !== undefined && typeof options.input?.['~standard']?.validate !== 'function') {
    throw new InvalidOptionError(
      `${of}.input`,
      'it is not a Standard Schema; Zod 3.24, Valibot 1 and ArkType 2 make such',
    )
  }
  const declared: Kind = Object.freeze({
    name,
    queue: options.queue ?? name,
    ordered: checkOrdered(`${of}.ordered`, options.ordered),
    priority: checkInteger(`${of}.priority`, options.priority ?? 5, 0, 9),
    maxAttempts: checkInteger(`${of}.maxAttempts`, options.maxAttempts ?? 5, 1, 32_767),
    backoff: checkBackoff(`${of}.backoff`, options.backoff, { first: '1s', max: '1h' }),
    timeoutMs: durationMs(`${of}.timeout`, options.timeout ?? '1h', 1),
    keepMs: checkKeep(`${of}.keep`, options.keep ?? '7d'),
    keepKeyMs: durationMs(`${of}.keepKey`, options.keepKey ?? '24h'),
    schema: options.input,
    returns: () => declared as never,
  })
  return declared
}

function checkOrdered(option: string, ordered: unknown): boolean {
  if (ordered === undefined || ordered === true) return ordered === true
  throw new InvalidOptionError(option, 'it must be true, or left out: the database decides then')
}

// Finished jobs are deleted by dropping a day's partition, and those days are created ahead.
function checkKeep(option: string, keep: Duration | false): number | false {
  if (keep === false) return false
  const keepMs = durationMs(option, keep)
  if (keepMs <= KEPT_AT_MOST_MS) return keepMs
  throw new InvalidOptionError(option, 'it is more than 90d; copy what you need for longer to a table of your own')
}
