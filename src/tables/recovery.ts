/**
 * The reaper and the re-drive: rows whose holder is gone, rows that have failed, rows of which nobody was told. Safe to run
 * twice and by many: every statement takes rows that nobody else is changing, and leaves them in a state it does not look for.
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

/** Enough for one turn: the rest is done in the next. */
const ROUNDS = 100
const RAN_OUT = 'the claim ran out: its holder was not heard of'

export interface Recovery {
  /**
   * Tells of rows that are ready again, inside the transaction that makes them so: for jobs in the same database. It may be
   * called again for the same rows. A row for which alone it throws has failed once more.
   */
  readonly enqueue?: (ids: readonly string[], tx: ClientBase) => Promise<unknown>
  /** Tells of them after the commit: for queues elsewhere. What it throws is reported; they are told of again later. */
  readonly publish?: (ids: readonly string[]) => Promise<unknown>
  /**
   * Rows that have been ready for this long, and nobody came: told of again. Longer than work takes. Default: with `publish`
   * the table's stuckAfter, otherwise never.
   */
  readonly resendAfter?: Duration
  /** Default: 30s. */
  readonly every?: Duration
  /** Rows in one transaction. Default: 100. */
  readonly batch?: number
}

/** Fails a row that is ready, inside the transaction. */
export type FailRow = (tx: ClientBase, id: string, error: unknown) => Promise<unknown>

const NOTHING = { takenBack: 0, givenUp: 0, redriven: 0, resent: 0 }

export function recovery(definition: Definition, options: Recovery, failRow: FailRow): Chore {
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
  const takenBack = await run(TAKE_BACK, [maxAttempts, RAN_OUT, limit])
  const redriven = await run(REDRIVE, [limit])
  const resent = resendMs === undefined ? [] : await run(RESEND, [resendMs, limit])
  return {
    counts: {
      takenBack: takenBack.length,
      givenUp: givenUp.length,
      redriven: redriven.length,
      resent: resent.length,
    },
    ids: [...takenBack, ...redriven, ...resent],
  }
}

/**
 * All at once; if that fails, one by one, so that a row which cannot be told of does not hold up the others. If none can be,
 * it is not the rows.
 */
async function enqueueAll(
  tx: ClientBase,
  ids: readonly string[],
  enqueue: NonNullable<Recovery['enqueue']>,
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

/** What it threw, undone. What is not the row's fault is thrown on. */
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
