/** The options that consumers of all brokers share, and how they are checked. */
import type { Pool } from 'pg'
import { type BackoffOption, checkBackoff } from '../core/backoff.ts'
import { checkFunction, checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { type Log, logOf } from '../core/log.ts'
import { checkOptions } from '../core/options.ts'
import type { Schema } from '../core/schema.ts'
import { surviveIdleLoss } from '../db/pool-errors.ts'
import { isPool } from '../db/transaction.ts'
import { type Chore, checkChores } from '../runtime/chore.ts'
import type { Handle } from './disposition.ts'
import { ofQueue } from './events.ts'
import type { AnyAttributes } from './held.ts'

export interface ConsumerOptions<Body = unknown, Attributes = AnyAttributes> {
  /** Handles a message: inTwoPhases(…), inOneUpdate(…), inOneTransaction(…), intoQueue(…), or your own function. */
  readonly handle: Handle<NoInfer<Body>, Attributes>
  /** A Standard Schema for bodies, or `'text'`. Default: any JSON. */
  readonly body?: Schema<unknown, Body> | 'text' | undefined
  /** Messages held at a time. Default: 10. */
  readonly concurrency?: number
  /** A handler that takes longer is aborted, and its message is redelivered. Default: 1h. */
  readonly timeout?: Duration
  /** How long handlers may go on after SIGTERM, before they are aborted and their messages returned. Default: 25s. */
  readonly grace?: Duration
  /** Delay before a failed message is redelivered: doubles with each delivery, a quarter is random. Default: 1s, 15m. */
  readonly backoff?: BackoffOption
  /** Run by every consumer besides messages, such as the table's recovery. They need a pool. */
  readonly chores?: readonly Chore[]
  /** For chores. */
  readonly pool?: Pool
  /** Signals that stop the consumer. Default: SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[]
  /** Default: warnings and errors to stderr. */
  readonly log?: Log
}

const KNOWN = ['handle', 'body', 'concurrency', 'timeout', 'grace', 'backoff', 'chores', 'pool', 'signals', 'log']

export function checkConsumer<Body, Attributes>(
  of: string,
  options: ConsumerOptions<Body, Attributes>,
  known: readonly string[],
): void {
  checkOptions(of, options ?? null, [...known, ...KNOWN])
  checkFunction(`${of}.handle`, options.handle)
}

/** `title` and `queue`: what is consumed, for the log. */
export function commonSettings<Body, Attributes>(
  of: string,
  options: ConsumerOptions<Body, Attributes>,
  title: string,
  queue: string,
) {
  const { signals = ['SIGTERM', 'SIGINT'] } = options
  if (!Array.isArray(signals)) throw new InvalidOptionError(`${of}.signals`, "it must be a list such as ['SIGTERM']")
  const chores = checkChores(`${of}.chores`, options.chores ?? [])
  if (chores.length > 0 && (options.pool === undefined || !isPool(options.pool))) {
    throw new InvalidOptionError(`${of}.pool`, 'chores need it: pass a pg.Pool')
  }
  const log = logOf(`${of}.log`, options.log)
  if (options.pool !== undefined) surviveIdleLoss(options.pool, log)
  return {
    handle: options.handle as Handle<never>,
    body: checkBody(of, options.body),
    concurrency: checkInteger(`${of}.concurrency`, options.concurrency ?? 10, 1, 100_000),
    timeoutMs: durationMs(`${of}.timeout`, options.timeout ?? '1h', 1),
    graceMs: durationMs(`${of}.grace`, options.grace ?? '25s'),
    backoff: checkBackoff(`${of}.backoff`, options.backoff, { first: '1s', max: '15m' }, 1_000),
    chores,
    pool: options.pool,
    signals: signals as readonly NodeJS.Signals[],
    log: ofQueue(`${title} ${queue}`, queue, log),
    logsAll: options.log !== undefined,
  }
}

/** Whole seconds. In other libraries 30 means seconds. */
export function wholeSeconds(option: string, value: Duration, mostS: number): number {
  const given = durationMs(option, value) / 1_000
  if (Number.isInteger(given) && given >= 1 && given <= mostS) return given
  const meant = typeof value === 'number' && value >= 1 && value <= mostS
  const hint = meant ? `; ${value} is ${value} milliseconds, for seconds write '${value}s'` : ''
  throw new InvalidOptionError(option, `it must be whole seconds, from '1s' to '${mostS / 3_600}h'${hint}`)
}

function checkBody(of: string, body: unknown): Schema | 'text' | 'json' {
  if (body === undefined) return 'json'
  if (body === 'text' || typeof (body as Schema | null)?.['~standard']?.validate === 'function') return body as Schema
  throw new InvalidOptionError(`${of}.body`, "it must be a Standard Schema or 'text'")
}
