import type { Pool } from 'pg'
import { harmless, type Log } from '../core/log.ts'
import { isPool } from './transaction.ts'

/** Whom we tell of losses, pool by pool; nobody yet, if whoever came first had no log. */
const told = new WeakMap<Pool, { log: Log | undefined }>()

/**
 * An idle connection that breaks is replaced, and whoever asks next is told if that fails. But pg tells it to the pool at once,
 * and an `error` event that nobody listens to ends the process: a restart of Postgres would. Who listens already is left alone.
 */
export function surviveIdleLoss(db: unknown, log?: Log): void {
  if (typeof db !== 'object' || db === null || !isPool(db) || typeof db.on !== 'function') return
  const known = told.get(db)
  if (known !== undefined) {
    known.log ??= log
    return
  }
  if (db.listenerCount('error') > 0) return
  const entry = { log }
  told.set(db, entry)
  db.on('error', (error) => entry.log && harmless(entry.log)({ level: 'warn', message: LOST, error }))
}

const LOST = 'an idle connection was lost'
