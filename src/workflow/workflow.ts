/** Declares a workflow: its name and version, the options of its runs, and its code. */
import type { BackoffOption } from '../core/backoff.ts'
import { checkInteger, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { IsJson } from '../core/json.ts'
import { type Kind, kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import type { Schema, SchemaInput, SchemaOutput } from '../core/schema.ts'
import { checkRetry, type RetryOption, type RetryPolicy } from './retry.ts'
import type { Run } from './run.ts'

export interface WorkflowOptions {
  /** Any Standard Schema: checked when a run starts, parsed when it executes. Default: anything JSON holds. */
  readonly input?: Schema | undefined
  /** A run keeps the version it was started with. Raise it when open runs must not execute the new code. Default: 1. */
  readonly version?: number
  /** How steps are retried that have no policy of their own. Default: 5 attempts, from 1s to 1h apart. */
  readonly retry?: RetryOption
  /** Attempts of the code between two recorded steps, when it throws outside of steps or kills its process. Default: 5. */
  readonly maxAttempts?: number
  readonly backoff?: BackoffOption
  /** How long the code may execute between two waits. Default: 1h. */
  readonly timeout?: Duration
  /** A run that has not ended so long after its start fails, and what it did is compensated. Default: none. */
  readonly deadline?: Duration
  /** How long a run that has ended can be looked up, and its id stays taken, at most 90d. Default: 30d. */
  readonly keep?: Duration
  /** 0 first, 9 last. Default: 5. */
  readonly priority?: number
}

const KNOWN = [
  'input',
  'version',
  'retry',
  'maxAttempts',
  'backoff',
  'timeout',
  'deadline',
  'keep',
  'priority',
] as const

/** The code of a workflow. It runs again from the start whenever a run resumes; what its steps did is not repeated. */
export type Code<Parsed, Result> = (run: Run, input: Parsed) => Promise<Result>

/** A workflow: producers start runs of it, workers execute them. Without code it can only be started and signalled. */
export interface Workflow<Input = unknown, Parsed = Input, Result = unknown> {
  readonly name: string
  readonly version: number
  /** Of the jobs that carry its runs. Their queue has the workflow's name. */
  readonly kind: Kind<Input, Parsed, Result>
  readonly retry: RetryPolicy
  readonly deadlineMs: number | undefined
  readonly code: Code<Parsed, Result> | undefined
}

type JsonInput<S extends Schema> = IsJson<SchemaInput<S>, unknown, { readonly 'an input must be JSON': never }>

/** Declares a workflow. Touches no database. */
export function workflow<S extends Schema, Result>(
  name: string,
  options: WorkflowOptions & { readonly input: S & JsonInput<S> },
  code?: Code<SchemaOutput<S>, Result>,
): Workflow<SchemaInput<S>, SchemaOutput<S>, Result>
export function workflow<Input, Result>(
  name: string,
  options: WorkflowOptions & { readonly input?: undefined },
  code?: Code<Input, Result>,
): Workflow<Input, Input, Result>
export function workflow(name: string, options: WorkflowOptions, code?: Code<never, unknown>): Workflow {
  checkText('name', name, 150)
  const of = `workflow(${JSON.stringify(name)})`
  if (name.includes('@')) throw new InvalidOptionError(of, 'a name has no @, which stands in front of the version')
  checkOptions(of, options ?? null, KNOWN)
  if (code !== undefined && typeof code !== 'function') throw new InvalidOptionError(of, 'its code must be a function')
  const { version: given, retry, deadline, keep = '30d', ...ofKind } = options
  const version = checkInteger(`${of}.version`, given ?? 1, 1, 1_000_000)
  return Object.freeze({
    name,
    version,
    kind: kind(`${name}@${version}`, { ...ofKind, queue: name, keep, keepKey: keep } as { input?: undefined }) as Kind,
    retry: checkRetry(`${of}.retry`, retry),
    deadlineMs: deadline === undefined ? undefined : durationMs(`${of}.deadline`, deadline, 1),
    code: code as Code<unknown, unknown> | undefined,
  })
}
