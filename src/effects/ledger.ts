/** The ledger of effects: which were begun for a job, which are done, and their results. */
import { checkInteger, checkMilliseconds, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { encodeSafely } from '../core/storable.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane, Row } from '../db/lane.ts'
import { checkId } from '../db/parameters.ts'
import type { JobId, Lease } from '../jobs/job.ts'
import { type ByOption, checkBy } from '../jobs/operator.ts'
import { BEGIN, DONE, LIST_EFFECTS, NOT_DONE, PRUNE_EFFECTS, SETTLE_EFFECT, TAKE_OVER } from './effect.sql.ts'

const NAME_BYTES = 200
/** Handlers continue with this result, so it may be far larger than the result of a job, which is for people. */
const RESULT_BYTES = 32 * 1024 * 1024

export function checkName(name: string): string {
  return checkText('effect name', name, NAME_BYTES)
}

/** One run of an effect: its reports count while the marker carries its id. */
export interface Run {
  readonly lease: Lease
  readonly name: string
  readonly id: string
}

/** refused: the lease is gone. started: by that run, since then, and no end is recorded. */
export type Begun =
  | { readonly state: 'refused' }
  | { readonly state: 'begun'; readonly since: Date }
  | { readonly state: 'done'; readonly result: unknown }
  | { readonly state: 'started'; readonly by: string; readonly since: Date }

/** Records that the effect is about to happen, unless an earlier run has. */
export async function begin(lane: Lane, run: Run): Promise<Begun> {
  for (;;) {
    const [row] = await send<BeginColumn>(lane, BEGIN, valuesOf(run))
    const { held, begun, run_id: by, done, started_ms: since, result } = row!
    if (held === null) return { state: 'refused' }
    if (begun !== null) return { state: 'begun', since: toDate(since) }
    if (done === 't') return { state: 'done', result: decode(result) }
    if (done === 'f') return { state: 'started', by: by!, since: toDate(since) }
  }
}

/** True: the marker of that run is ours now. False: it has changed, so look again. */
export async function takeOver(lane: Lane, run: Run, from: string): Promise<boolean | 'refused'> {
  const [row] = await send<'held' | 'taken'>(lane, TAKE_OVER, [...valuesOf(run), from])
  return row!.held === null ? 'refused' : row!.taken !== null
}

/** recorded: the marker was ours. held: so is the job. */
export async function done(lane: Lane, run: Run, result: string | null): Promise<{ recorded: boolean; held: boolean }> {
  const [row] = await send<'recorded' | 'held'>(lane, DONE, [...valuesOf(run), result])
  return { recorded: row!.recorded === 't', held: row!.held === 't' }
}

/** Removes the marker, if it is ours. */
export async function notDone(lane: Lane, { lease, name, id }: Run): Promise<void> {
  await send(lane, NOT_DONE, [lease.jobId, name, id])
}

function valuesOf({ lease, name, id }: Run): unknown[] {
  return [lease.jobId, lease.claimId, name, id]
}

type BeginColumn = 'held' | 'begun' | 'run_id' | 'done' | 'result' | 'started_ms'

function send<Column extends string>(
  lane: Lane,
  statement: string,
  values: readonly unknown[],
): Promise<readonly Row<Column>[]> {
  return settlingConflicts(lane.standsAlone, () => lane.run<Column>(statement, values))
}

/** undefined is not JSON: it is stored as no result, and returned as undefined. */
export function encode(result: unknown): string | null {
  return result === undefined ? null : encodeSafely(result, { bytes: RESULT_BYTES })
}

export function decode(result: string | null | undefined): unknown {
  return result == null ? undefined : JSON.parse(result)
}

/** One effect of a job. started: it was begun, and no end is recorded. */
export interface Effect {
  readonly name: string
  readonly state: 'started' | 'done'
  /** Generation of the claim that began it. */
  readonly generation: number
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly result: unknown
}

/** In the order in which they were begun. */
export async function listEffects(lane: Lane, jobId: JobId): Promise<Effect[]> {
  const rows = await lane.run<'name' | 'lease_generation' | 'started_ms' | 'finished_ms' | 'result'>(LIST_EFFECTS, [
    checkId('jobId', jobId),
  ])
  return rows.map((row) => ({
    name: row.name!,
    state: row.finished_ms === null ? 'started' : 'done',
    generation: Number(row.lease_generation),
    startedAt: toDate(row.started_ms),
    finishedAt: row.finished_ms === null ? null : toDate(row.finished_ms),
    result: decode(row.result),
  }))
}

/** What an operator found out about an effect that was begun. */
export type EffectFinding = { readonly happened: true; readonly result?: unknown } | { readonly happened: false }

/** processing: a worker holds the job, and will report itself. nothing_to_settle: no such effect, or it is done. */
export type EffectSettled = 'settled' | 'processing' | 'nothing_to_settle'

export async function settleEffect(
  lane: Lane,
  jobId: JobId,
  name: string,
  finding: EffectFinding & ByOption,
): Promise<EffectSettled> {
  checkOptions('settleEffect', finding, ['happened', 'result', 'by'])
  if (typeof finding?.happened !== 'boolean') {
    throw new InvalidOptionError('settleEffect.happened', 'it must be true or false')
  }
  const result = finding.happened ? encode(finding.result) : null
  const values = [checkId('jobId', jobId), checkName(name), finding.happened, result, checkBy(finding.by)]
  const [row] = await send<'settled' | 'claimed'>(lane, SETTLE_EFFECT, values)
  if (row!.settled === 't') return 'settled'
  return row!.claimed === 't' ? 'processing' : 'nothing_to_settle'
}

/**
 * Looks at up to `limit` effects after job `after` and deletes those older than `ageMs` whose job cannot run again. Returns
 * where to continue, or undefined at the end.
 */
export async function pruneEffects(
  lane: Lane,
  ageMs: number,
  after: JobId | '0' = '0',
  limit = 1_000,
): Promise<{ pruned: number; next: JobId | undefined }> {
  const from = after === '0' ? after : checkId('after', after)
  const values = [from, checkInteger('limit', limit, 1, 10_000), checkMilliseconds('ageMs', ageMs)]
  const [row] = await lane.run<'pruned' | 'looked' | 'last'>(PRUNE_EFFECTS, values)
  return { pruned: Number(row!.pruned), next: Number(row!.looked) < limit ? undefined : (row!.last as JobId) }
}

function toDate(ms: string | null | undefined): Date {
  return new Date(Number(ms))
}
