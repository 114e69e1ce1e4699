import type { Pool } from 'pg'
import type { Handle } from '../consumer/disposition.ts'
import { ofQueue } from '../consumer/events.ts'
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
import type { SqsAttributes } from './message.ts'
import { checkQueueUrl } from './queue-url.ts'
import { isFifo, MOST_S, queueName, WAIT_S } from './request.ts'

export interface SqsConsumerOptions<Body = unknown> {
  readonly queueUrl: string
  /** Handles a message: inTwoPhases(…), inOneUpdate(…), inOneTransaction(…), intoQueue(…), or your own function. */
  readonly handle: Handle<NoInfer<Body>, SqsAttributes>
  /** A Standard Schema for bodies, or `'text'`. Default: any JSON. */
  readonly body?: Schema<unknown, Body> | 'text' | undefined
  /** Messages held at a time. Default: 10. */
  readonly concurrency?: number
  /** How long SQS hides a received message; extended while it is held. Whole seconds. Default: 30s. */
  readonly visibility?: Duration
  /** A handler that takes longer is aborted, and SQS redelivers its message. Default: 1h. */
  readonly timeout?: Duration
  /** How long handlers may go on after SIGTERM, before they are aborted and their messages returned. Default: 25s. */
  readonly grace?: Duration
  /** Delay before a failed message is redelivered: doubles with each delivery, a quarter is random. Default: 1s, 15m. */
  readonly backoff?: BackoffOption
  /** Receives messages that can never be handled, with their reason. Default: they are redelivered until SQS gives up. */
  readonly deadLetterQueueUrl?: string | undefined
  /** FIFO: whether messages behind one that was not deleted are returned (stop) or handled (skip). Default: stop. */
  readonly onGroupFailure?: 'stop' | 'skip'
  /** Run by every consumer besides messages, such as the table's recovery. They need a pool. */
  readonly chores?: readonly Chore[]
  /** For chores. */
  readonly pool?: Pool
  /** Signals that stop the consumer. Default: SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[]
  /** Default: warnings and errors to stderr. */
  readonly log?: Log
}

const KNOWN = [
  'queueUrl',
  'handle',
  'body',
  'concurrency',
  'visibility',
  'timeout',
  'grace',
  'backoff',
  'deadLetterQueueUrl',
  'onGroupFailure',
  'chores',
  'pool',
  'signals',
  'log',
]

const OF = 'SqsConsumer'

export function settings<Body>(options: SqsConsumerOptions<Body>) {
  checkOptions(OF, options ?? null, KNOWN)
  checkFunction(`${OF}.handle`, options.handle)
  const { onGroupFailure = 'stop', signals = ['SIGTERM', 'SIGINT'] } = options
  if (onGroupFailure !== 'stop' && onGroupFailure !== 'skip') {
    throw new InvalidOptionError(`${OF}.onGroupFailure`, "it must be 'stop' or 'skip'")
  }
  if (!Array.isArray(signals)) throw new InvalidOptionError(`${OF}.signals`, "it must be a list such as ['SIGTERM']")
  const backoff = checkBackoff(`${OF}.backoff`, options.backoff, { first: '1s', max: '15m' }, 1_000)
  if (backoff.maxMs > MOST_S * 1_000)
    throw new InvalidOptionError(`${OF}.backoff.max`, 'SQS hides a message for at most 12h')
  const chores = checkChores(`${OF}.chores`, options.chores ?? [])
  if (chores.length > 0 && (options.pool === undefined || !isPool(options.pool))) {
    throw new InvalidOptionError(`${OF}.pool`, 'chores need it: pass a pg.Pool')
  }
  const queueUrl = checkQueueUrl(`${OF}.queueUrl`, options.queueUrl)
  const log = logOf(`${OF}.log`, options.log)
  if (options.pool !== undefined) surviveIdleLoss(options.pool, log)
  const visibilityS = seconds(`${OF}.visibility`, options.visibility ?? '30s')
  return {
    queueUrl,
    isGrouped: isFifo(queueUrl),
    handle: options.handle as Handle<never>,
    body: checkBody(options.body),
    concurrency: checkInteger(`${OF}.concurrency`, options.concurrency ?? 10, 1, 100_000),
    visibilityS,
    visibilityMs: visibilityS * 1_000,
    timeoutMs: durationMs(`${OF}.timeout`, options.timeout ?? '1h', 1),
    receiveMs: WAIT_S * 1_000,
    graceMs: durationMs(`${OF}.grace`, options.grace ?? '25s'),
    backoff,
    deadLetterQueueUrl: checkDeadLetters(queueUrl, options.deadLetterQueueUrl),
    onGroupFailure,
    chores,
    pool: options.pool,
    signals: signals as readonly NodeJS.Signals[],
    log: ofQueue(`SQS queue ${queueName(queueUrl)}`, queueName(queueUrl), log),
    logsAll: options.log !== undefined,
  }
}

/** In other libraries 30 means seconds. */
function seconds(option: string, value: Duration): number {
  const given = durationMs(option, value) / 1_000
  if (Number.isInteger(given) && given >= 1 && given <= MOST_S) return given
  const meant = typeof value === 'number' && value >= 1 && value <= MOST_S
  const hint = meant ? `; ${value} is ${value} milliseconds, for seconds write '${value}s'` : ''
  throw new InvalidOptionError(option, `it must be whole seconds, from '1s' to '12h'${hint}`)
}

function checkDeadLetters(queueUrl: string, url: string | undefined): string | undefined {
  if (url === undefined) return undefined
  const option = `${OF}.deadLetterQueueUrl`
  if (url === queueUrl) throw new InvalidOptionError(option, 'it is the queue itself, so dead letters would loop')
  return checkQueueUrl(option, url)
}

function checkBody(body: unknown): Schema | 'text' | 'json' {
  if (body === undefined) return 'json'
  if (body === 'text' || typeof (body as Schema | null)?.['~standard']?.validate === 'function') return body as Schema
  throw new InvalidOptionError(`${OF}.body`, "it must be a Standard Schema or 'text'")
}
