import type { Pool } from 'pg'
import { harmless, type Log } from '../core/log.ts'
import { isPool } from './transaction.ts'

/** The log for each pool. Undefined: registered without a log; a later caller may add one. */
const logs = new WeakMap<Pool, { log: Log | undefined }>()

/**
 * The pool replaces an idle connection that breaks, and the next caller gets the error if that fails. But pg also emits
 * `error` on the pool, and without a listener that ends the process: a restart of Postgres would. A user's own listener
 * stays alone.
 */
export function surviveIdleLoss(db: unknown, log?: Log): void {
  if (typeof db !== 'object' || db === null || !isPool(db) || typeof db.on !== 'function') return
  const known = logs.get(db)
  if (known !== undefined) {
    known.log ??= log
    return
  }
  if (db.listenerCount('error') > 0) return
  const entry = { log }
  logs.set(db, entry)
  db.on('error', (error) => entry.log && harmless(entry.log)({ level: 'warn', message: LOST, error }))
}

const LOST = 'an idle connection was lost'
