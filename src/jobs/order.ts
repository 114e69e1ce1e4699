import { checkInteger, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Queue } from '../core/queue.ts'
import type { Lane, Row } from '../db/lane.ts'
import type { JobId } from './job.ts'
import { type ByOption, checkBy } from './operator.ts'
import { BLOCKED_KEYS, CHECK_ORDER, LONG_WAITING_KEYS, LOOK_AGAIN, UNBLOCK } from './order.sql.ts'

/** A key of an ordered queue in which jobs wait behind another. */
export interface BlockedKey {
  readonly queue: string
  readonly partitionKey: string
  /** How many wait. */
  readonly waiting: number
  /** The job, or dead letter, that they wait for. */
  readonly jobId: JobId
  readonly why: 'dead_letter' | 'processing' | 'retrying' | 'scheduled' | 'ready'
  /** How long it has been so. */
  readonly forMs: number
}

export interface BlockedKeysFilter {
  readonly queue: Queue | string
  /** Default: 100, at most 1,000. */
  readonly limit?: number
}

export async function blockedKeys(lane: Lane, filter: BlockedKeysFilter): Promise<BlockedKey[]> {
  checkOptions('blockedKeys', filter, ['queue', 'limit'])
  const limit = checkInteger('limit', filter.limit ?? 100, 1, 1_000)
  return (await lane.run<Column>(BLOCKED_KEYS, [nameOf(filter.queue), limit])).map(toBlockedKey)
}

/** Keys whose first job has been there for so long while others wait. */
export async function longWaitingKeys(lane: Lane, queues: readonly string[], forMs: number): Promise<BlockedKey[]> {
  return (await lane.run<Column>(LONG_WAITING_KEYS, [queues, forMs, 100])).map(toBlockedKey)
}

/** not_blocked: no dead letter was in the way of this key. */
export type UnblockOutcome = 'unblocked' | 'not_blocked'

export interface KeyTarget {
  readonly queue: Queue | string
  readonly partitionKey: string
}

/** The key goes on without the dead letters that block it. They stay dead letters. */
export async function unblock(lane: Lane, target: KeyTarget, options: ByOption = {}): Promise<UnblockOutcome> {
  checkOptions('unblock', options, ['by'])
  const key = checkText('partitionKey', target?.partitionKey, 1_000)
  const [row] = await lane.run<'outcome'>(UNBLOCK, [nameOf(target.queue), key, checkBy(options.by)])
  return row!.outcome as UnblockOutcome
}

/** Has these keys looked at, and their first jobs let in if they are not. */
export async function lookAgain(lane: Lane, keys: readonly KeyTarget[]): Promise<void> {
  if (keys.length === 0) return
  await lane.run(LOOK_AGAIN, [keys.map(({ queue }) => queue), keys.map(({ partitionKey }) => partitionKey)])
}

/** Looks again at keys that could not be judged when their last job left. Returns whether one of these queues is ordered. */
export async function checkOrder(lane: Lane, queues: readonly string[]): Promise<boolean> {
  const [row] = await lane.run<'any_ordered'>(CHECK_ORDER, [queues])
  return row!.any_ordered === 't'
}

function nameOf(queue: Queue | string): string {
  const name = typeof queue === 'string' ? queue : queue?.name
  if (typeof name !== 'string')
    throw new InvalidOptionError('queue', "it must be a name, or declared with queue('name')")
  return checkText('queue', name, 200)
}

type Column = 'queue' | 'key' | 'waiting' | 'job_id' | 'why' | 'for_ms'

function toBlockedKey(row: Row<Column>): BlockedKey {
  return {
    queue: row.queue!,
    partitionKey: row.key!,
    waiting: Number(row.waiting),
    jobId: row.job_id as JobId,
    why: row.why as BlockedKey['why'],
    forMs: Math.max(0, Number(row.for_ms)),
  }
}
