import { checkInteger, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { sleep } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { idArray } from '../db/parameters.ts'
import type { JobId } from './job.ts'
import { CANCEL, FIND_DEAD_LETTERS, REDRIVE } from './operator.sql.ts'
import { REASON_CHARS } from './outcome.ts'

const BUSY_AGAIN_MS = 20
const BUSY_AT_MOST = 100

/** Who does it, for the record in leasehold.operator_actions. */
export interface ByOption {
  /** A person, a script, a service. Default: not known. */
  readonly by?: string
}

/** cancelled: it was pending. requested: it runs, and its worker will abort it. busy: locked this moment, ask again. */
export type CancelOutcome = 'cancelled' | 'requested' | 'busy' | 'not_found'

export interface CancelOptions extends ByOption {
  /** Why, kept with the job. At most 1,000 bytes. */
  readonly reason?: string
}

export async function cancel(
  lane: Lane,
  jobIds: readonly JobId[],
  { by, reason }: CancelOptions = {},
): Promise<{ jobId: JobId; outcome: CancelOutcome }[]> {
  const why = reason === undefined ? null : checkText('reason', reason, REASON_CHARS)
  const rows = await lane.run<'id' | 'outcome'>(CANCEL, [idArray('jobId', [...new Set(jobIds)]), checkBy(by), why])
  return rows.map(({ id, outcome }) => ({ jobId: id as JobId, outcome: outcome as CancelOutcome }))
}

/** Asks again while a worker writes the job's outcome, for about two seconds. */
export async function cancelOne(lane: Lane, jobId: JobId, options: CancelOptions = {}): Promise<CancelOutcome> {
  checkOptions('cancel', options, ['by', 'reason'])
  for (let tries = 0; ; tries++) {
    const [answer] = await cancel(lane, [jobId], options)
    if (answer!.outcome !== 'busy' || tries === BUSY_AT_MOST) return answer!.outcome
    await sleep(BUSY_AGAIN_MS)
  }
}

/** Dead letters become pending jobs again, with fresh attempts. Returns those that this call revived. */
export async function redrive(lane: Lane, jobIds: readonly JobId[], { by }: ByOption = {}): Promise<JobId[]> {
  const rows = await lane.run<'id'>(REDRIVE, [idArray('jobId', [...new Set(jobIds)]), checkBy(by)])
  return rows.map(({ id }) => id as JobId)
}

export function checkBy(by: string | undefined): string | null {
  return by === undefined ? null : checkText('by', by, 200)
}

export interface DeadLetterFilter {
  readonly queue: string
  readonly kind?: string
  readonly reason?: string
  readonly partitionKey?: string
  /** At most this many, oldest first. Default: 1,000. */
  readonly limit?: number
}

/** The ids to pass to `redrive`. */
export async function findDeadLetters(lane: Lane, filter: DeadLetterFilter): Promise<JobId[]> {
  const limit = checkInteger('limit', filter.limit ?? 1_000, 1, 10_000)
  const rows = await lane.run<'id'>(FIND_DEAD_LETTERS, [
    filter.queue,
    filter.kind ?? null,
    filter.reason ?? null,
    limit,
    filter.partitionKey ?? null,
  ])
  return rows.map(({ id }) => id as JobId)
}

export interface RedriveFilter {
  readonly kind: Kind
  /** Only dead letters with this reason, such as attempts_exhausted. */
  readonly reason?: string
  /** Only dead letters of this key. */
  readonly partitionKey?: string
  /** Oldest first. Default: 1,000, at most 10,000. */
  readonly limit?: number
}

/** By id, by ids, or those of a kind. */
export async function redriveWhich(
  lane: Lane,
  which: string | readonly string[] | RedriveFilter,
  options: ByOption = {},
): Promise<JobId[]> {
  checkOptions('redrive', options, ['by'])
  if (typeof which === 'string') return redrive(lane, [which as JobId], options)
  if (isList(which)) return redrive(lane, which as readonly JobId[], options)
  if (typeof which?.kind?.name !== 'string') {
    throw new InvalidOptionError(
      'redrive',
      'it must be a job id, a list of ids, or { kind, reason, partitionKey, limit }',
    )
  }
  checkOptions('redrive', which, ['kind', 'reason', 'partitionKey', 'limit'])
  const { kind, ...filter } = which
  const found = await findDeadLetters(lane, { ...filter, queue: kind.queue, kind: kind.name })
  return redrive(lane, found, options)
}

function isList(which: readonly string[] | RedriveFilter): which is readonly string[] {
  return Array.isArray(which)
}
