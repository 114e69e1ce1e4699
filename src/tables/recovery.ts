/**
 * Reclaims rows whose claim expired, retries failed rows, and re-publishes stuck rows. Any number of processes may run it
 * at the same time: every statement skips rows that another session is changing, and leaves rows in a state it does not
 * look for.
 */
import type { ClientBase, Pool } from 'pg'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { checkOptions } from '../core/options.ts'
import { isConflict } from '../db/conflict.ts'
import { asPrinted } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { withTransaction } from '../db/transaction.ts'
import type { Chore } from '../runtime/chore.ts'
import type { Definition } from './definition.ts'
import { GIVE_UP, REDRIVE, RESEND, TAKE_BACK } from './row.sql.ts'

/** Enough for one run; the next run continues. */
const ROUNDS = 100
const RAN_OUT = 'claim expired: its holder stopped renewing'

export interface RecoveryOptions {
  /**
   * Enqueues jobs for rows that are ready again, inside the transaction that makes them so: for jobs in the same database.
   * It may be called again for the same rows. If it throws for a row alone, that row's attempt has failed.
   */
  readonly enqueue?: (ids: readonly string[], tx: ClientBase) => Promise<unknown>
  /** Publishes the rows after the commit: for external queues. Its errors are reported; the rows are re-published later. */
  readonly publish?: (ids: readonly string[]) => Promise<unknown>
  /**
   * Re-publishes rows that have been ready for this long. Must be longer than the work takes. Default: with `publish` the
   * table's stuckAfter, otherwise never.
   */
  readonly resendAfter?: Duration
  /** Default: 30s. */
  readonly every?: Duration
  /** Rows in one transaction. Default: 100. */
  readonly batch?: number
}

/** Fails a row that is ready, inside the transaction. */
export type FailRow = (tx: ClientBase, id: string, error: unknown) => Promise<unknown>

const NOTHING = { reclaimed: 0, givenUp: 0, redriven: 0, resent: 0 }

export function recovery(definition: Definition, options: RecoveryOptions, failRow: FailRow): Chore {
  const of = `recovery(${JSON.stringify(definition.table)})`
  checkOptions(of, options, ['enqueue', 'publish', 'resendAfter', 'every', 'batch'])
  const limit = checkInteger(`${of}.batch`, options.batch ?? 100, 1, 10_000)
  const every = options.every ?? '30s'
  durationMs(`${of}.every`, every, 100)
  const resendAfter = options.resendAfter ?? (options.publish === undefined ? undefined : definition.stuckAfterMs)
  const resendMs = resendAfter === undefined ? undefined : durationMs(`${of}.resendAfter`, resendAfter, 1)
  const batch = (pool: Pool) =>
    withTransaction(
      pool,
      async (tx) => {
        const { counts, ids } = await takeRows(tx, definition, limit, resendMs)
        if (ids.length > 0 && options.enqueue !== undefined) await enqueueAll(tx, ids, options.enqueue, failRow)
        return { counts, ids }
      },
      { isolation: 'read committed', attempts: 5 },
    )
  return {
    name: `recovery of ${definition.table}`,
    every,
    run: async (pool, signal) => {
      const total = { ...NOTHING }
      for (let round = 0; round < ROUNDS && !signal?.aborted; round++) {
        const { counts, ids } = await batch(pool)
        for (const what of Object.keys(total) as (keyof typeof total)[]) total[what] += counts[what]
        if (ids.length > 0) await options.publish?.(ids)
        if (Math.max(...Object.values(counts)) < limit) break
      }
      return total
    },
  }
}

async function takeRows(tx: ClientBase, definition: Definition, limit: number, resendMs: number | undefined) {
  const { maxAttempts } = definition
  const run = async (statement: string, values: unknown[]): Promise<string[]> => {
    const { text } = definition.statement(statement, statement)
    const { rows } = await tx.query({ text, values, rowMode: 'array', types: asPrinted })
    return rows.map(([id]) => id)
  }
  const givenUp = await run(GIVE_UP, [maxAttempts, RAN_OUT, limit])
  const reclaimed = await run(TAKE_BACK, [maxAttempts, RAN_OUT, limit])
  const redriven = await run(REDRIVE, [limit])
  const resent = resendMs === undefined ? [] : await run(RESEND, [resendMs, limit])
  return {
    counts: {
      reclaimed: reclaimed.length,
      givenUp: givenUp.length,
      redriven: redriven.length,
      resent: resent.length,
    },
    ids: [...reclaimed, ...redriven, ...resent],
  }
}

/**
 * All rows at once; if that fails, one by one, so that a row that cannot be enqueued does not block the others. If every
 * row fails, the rows are not the cause.
 */
async function enqueueAll(
  tx: ClientBase,
  ids: readonly string[],
  enqueue: NonNullable<RecoveryOptions['enqueue']>,
  failRow: FailRow,
): Promise<void> {
  const whole = await tries(tx, () => enqueue(ids, tx))
  if (whole === undefined) return
  let failed = 0
  for (const id of ids) {
    const failure = await tries(tx, () => enqueue([id], tx))
    if (failure === undefined) continue
    await failRow(tx, id, failure.error)
    failed++
  }
  if (failed === ids.length) throw whole.error
}

/** Returns the error, with its changes rolled back. Rethrows an error that is not the row's. */
async function tries(tx: ClientBase, work: () => Promise<unknown>): Promise<{ error: unknown } | undefined> {
  await tx.query('savepoint leasehold_enqueue')
  try {
    await work()
  } catch (error) {
    if (isOutage(error) || isConflict(error)) throw error
    await tx.query('rollback to savepoint leasehold_enqueue')
    return { error }
  }
  await tx.query('release savepoint leasehold_enqueue')
  return undefined
}
