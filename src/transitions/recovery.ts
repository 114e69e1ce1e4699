/**
 * The reaper and the re-drive: rows whose holder is gone, rows that have failed, rows of which nobody was told. Safe to run
 * twice and by many: every statement takes rows that nobody else is changing, and leaves them in a state it does not look for.
 */
import type { ClientBase, Pool } from 'pg'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { checkOptions } from '../core/options.ts'
import type { Chore } from '../db/chore.ts'
import { asPrinted } from '../db/lane.ts'
import { withTransaction } from '../db/transaction.ts'
import type { Definition } from './definition.ts'
import { GIVE_UP, REDRIVE, RESEND, TAKE_BACK } from './row.sql.ts'

/** Enough for one turn: the rest is done in the next. */
const ROUNDS = 100

export interface Recovery {
  /** Tells of rows that are ready again, inside the transaction that makes them so: for jobs in the same database. */
  readonly enqueue?: (ids: readonly string[], tx: ClientBase) => Promise<unknown>
  /** Tells of them after the commit: for queues elsewhere. What it throws is reported; they are told of again later. */
  readonly publish?: (ids: readonly string[]) => Promise<unknown>
  /** Rows that have been ready for this long, and nobody came: told of again. Longer than work takes. Default: never. */
  readonly resendAfter?: Duration
  /** Default: 30s. */
  readonly every?: Duration
  /** Rows in one transaction. Default: 100. */
  readonly batch?: number
}

const NOTHING = { takenBack: 0, givenUp: 0, redriven: 0, resent: 0 }

export function recovery(definition: Definition, options: Recovery): Chore {
  const of = `recovery(${JSON.stringify(definition.table)})`
  checkOptions(of, options, ['enqueue', 'publish', 'resendAfter', 'every', 'batch'])
  const limit = checkInteger(`${of}.batch`, options.batch ?? 100, 1, 10_000)
  const every = options.every ?? '30s'
  durationMs(`${of}.every`, every, 100)
  const resendMs =
    options.resendAfter === undefined ? undefined : durationMs(`${of}.resendAfter`, options.resendAfter, 1)
  return {
    name: `recovery of ${definition.table}`,
    every,
    run: async (pool, signal) => {
      const total = { ...NOTHING }
      for (let round = 0; round < ROUNDS && !signal?.aborted; round++) {
        const { counts, ids } = await oneBatch(pool, definition, options, limit, resendMs)
        for (const what of Object.keys(total) as (keyof typeof total)[]) total[what] += counts[what]
        if (ids.length > 0) await options.publish?.(ids)
        if (Math.max(...Object.values(counts)) < limit) break
      }
      return total
    },
  }
}

function oneBatch(
  pool: Pool,
  definition: Definition,
  options: Recovery,
  limit: number,
  resendMs: number | undefined,
): Promise<{ counts: typeof NOTHING; ids: readonly string[] }> {
  const { stuckAfterMs, maxAttempts } = definition
  const error = `the claim was not heard of for ${stuckAfterMs} ms`
  return withTransaction(
    pool,
    async (tx) => {
      const run = async (statement: string, values: unknown[]): Promise<string[]> => {
        const { text } = definition.statement(statement, statement)
        const { rows } = await tx.query({ text, values, rowMode: 'array', types: asPrinted })
        return rows.map(([id]) => id)
      }
      const givenUp = await run(GIVE_UP, [stuckAfterMs, maxAttempts, error, limit])
      const takenBack = await run(TAKE_BACK, [stuckAfterMs, maxAttempts, error, limit])
      const redriven = await run(REDRIVE, [limit])
      const resent = resendMs === undefined ? [] : await run(RESEND, [resendMs, limit])
      const ids = [...takenBack, ...redriven, ...resent]
      if (ids.length > 0) await options.enqueue?.(ids, tx)
      const counts = {
        takenBack: takenBack.length,
        givenUp: givenUp.length,
        redriven: redriven.length,
        resent: resent.length,
      }
      return { counts, ids }
    },
    { isolation: 'read committed', attempts: 5 },
  )
}
