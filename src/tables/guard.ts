/**
 * A short lock at the moment of the write. The evaluation ran without a lock and without a connection. Here, under the
 * lock, the guard reads the evaluated rows again, and writes only if nothing has changed (decisions/0022).
 */
import { randomUUID } from 'node:crypto'
import type { ClientBase, Pool } from 'pg'
import { checkFunction, checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import {
  ConcurrentModificationError,
  InvalidOptionError,
  LockTimeoutError,
  TransactionConflictError,
} from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { monotonicMs } from '../core/timer.ts'
import { isConflict } from '../db/conflict.ts'
import { isPool, withTransaction } from '../db/transaction.ts'
import { checkTx, hasFailed } from '../db/tx.ts'
import { LOCK, MARK } from './guard.sql.ts'
import { isGuarded, type Rollout } from './rollout.ts'
import { areSame, type Seen, toIds } from './seen-ids.ts'

const MOST_KEYS = 100
const LOCK_NOT_AVAILABLE = '55P03'
const FAILED_TRANSACTION = '25P02'

export interface WriteGuardOptions {
  /** How long to wait for each lock. Applies to the guard only, not to your statements. Default: 2s. */
  readonly lockTimeout?: Duration
  /** Called for each conflict, for a log or a metric. Its errors are dropped. */
  readonly onConflict?: (conflict: ConcurrentModificationError) => unknown
  /** Called after each guarded write, for a histogram. Its errors are dropped. */
  readonly onWritten?: (written: GuardedTimes & { readonly site: string }) => unknown
}

export interface GuardedTimes {
  /** Until the locks were held. */
  readonly lockWaitMs: number
  /** From then until the commit; in a transaction of yours, until `write` returned. */
  readonly criticalMs: number
}

export interface GuardedWrite<T> {
  /** The place in your code, for counts and messages, such as `open incident`. Few and constant: each is counted. */
  readonly site: string
  /** Keys that only one writer may hold at a time, such as `entity:7`. Several are locked in a fixed order. */
  readonly lock: string | readonly string[]
  /** The ids that the evaluation read. */
  readonly seen: Iterable<Seen>
  /** Reads the ids again, under the lock. */
  readonly reread: (tx: ClientBase) => Promise<Iterable<Seen>>
  /** Runs if nothing has changed. Keep it short: other writers wait. */
  readonly write: (tx: ClientBase) => Promise<T>
  /** Percentage of keys that are guarded; the others are written without lock and re-read. Default: 100. */
  readonly rollout?: Rollout
  /** Your open READ COMMITTED transaction. The lock is held until it ends. Default: a transaction of its own. */
  readonly tx?: ClientBase
}

export interface GuardCounts {
  /** Nothing had changed when re-read under the lock. */
  readonly written: number
  readonly conflicts: number
  readonly lockTimeouts: number
  /** Written without the guard, because the rollout does not cover the keys yet. */
  readonly unguarded: number
}

export class WriteGuard {
  readonly #pool: Pool
  readonly #lockTimeoutMs: number
  readonly #onConflict: NonNullable<WriteGuardOptions['onConflict']>
  readonly #onWritten: NonNullable<WriteGuardOptions['onWritten']>
  readonly #counts = new Map<string, { -readonly [name in keyof GuardCounts]: GuardCounts[name] }>()
  readonly #times = new Map<string, GuardedTimes>()

  constructor(pool: Pool, options: WriteGuardOptions = {}) {
    if (typeof pool !== 'object' || pool === null || !isPool(pool)) {
      throw new InvalidOptionError('WriteGuard', 'its first argument must be a pool of pg: new pg.Pool({ … })')
    }
    checkOptions('WriteGuard', options, ['lockTimeout', 'onConflict', 'onWritten'])
    this.#pool = pool
    this.#lockTimeoutMs = Math.min(Math.ceil(durationMs('lockTimeout', options.lockTimeout ?? '2s', 1)), 2 ** 31 - 1)
    this.#onConflict = checkFunction('onConflict', options.onConflict ?? (() => {}))
    this.#onWritten = checkFunction('onWritten', options.onWritten ?? (() => {}))
  }

  /**
   * Begins a transaction, takes the lock, re-reads the evaluated ids, writes if they are unchanged, commits, and returns the
   * result of `write`. Throws ConcurrentModificationError if an id has changed, LockTimeoutError if the lock was not free in
   * time, TransactionConflictError if Postgres aborted the transaction in a deadlock; then nothing was written.
   */
  async run<T>(guarded: GuardedWrite<T>): Promise<T> {
    checkOptions('run', guarded ?? null, ['site', 'lock', 'seen', 'reread', 'write', 'rollout', 'tx'])
    const site = checkText('site', guarded.site, 200)
    const keys = checkKeys(guarded.lock)
    const seen = toIds('seen', guarded.seen)
    const reread = checkFunction('reread', guarded.reread)
    const write = checkFunction('write', guarded.write)
    const tx = guarded.tx === undefined ? undefined : checkTx(guarded.tx)
    const guards = isGuarded(site, keys, guarded.rollout)

    let refusal: ConcurrentModificationError | LockTimeoutError | undefined
    let [askedAt, lockedAt] = [0, 0]
    const work = async (within: ClientBase): Promise<T> => {
      if (guards) {
        askedAt = monotonicMs()
        refusal = await this.#lock(within, keys, tx !== undefined)
        lockedAt = monotonicMs()
        // A separate statement: the snapshot of the one that waited for the lock is older than the other writers' commits.
        refusal ??= compare(site, seen, toIds('reread', await reread(within)))
        if (refusal !== undefined) throw refusal
      }
      return write(within)
    }
    try {
      const written = await (tx === undefined
        ? withTransaction(this.#pool, work, { isolation: 'read committed' })
        : work(tx))
      if (guards) this.#written(site, { lockWaitMs: lockedAt - askedAt, criticalMs: monotonicMs() - lockedAt })
      else this.#countsOf(site).unguarded++
      return written
    } catch (error) {
      // Not an error that `write` threw; it may have used a guard itself.
      if (refusal !== undefined && error === refusal) this.#refused(site, refusal)
      const isOurs = tx === undefined && isConflict(error) && !(error instanceof TransactionConflictError)
      throw isOurs ? new TransactionConflictError({ cause: error }) : error
    }
  }

  /** By site, since this guard was made. In a transaction of yours, a write counts before you commit it. */
  counts(): Record<string, GuardCounts> {
    return Object.fromEntries([...this.#counts].map(([site, counts]) => [site, { ...counts }]))
  }

  /** By site: how long all guarded writes together waited for their locks, and held them. */
  times(): Record<string, GuardedTimes> {
    return Object.fromEntries(this.#times)
  }

  async #lock(tx: ClientBase, keys: readonly string[], isForeign: boolean): Promise<LockTimeoutError | undefined> {
    const mark = isForeign ? randomUUID() : null
    const values = [keys, String(this.#lockTimeoutMs), mark]
    try {
      if (mark !== null) await tx.query({ text: MARK, values: [mark] })
      const { rows } = await tx.query({ text: LOCK, values, rowMode: 'array' })
      checkAnswer(rows[0]?.[0])
      return undefined
    } catch (error) {
      const code = (error as { code?: unknown } | null)?.code
      if (code === FAILED_TRANSACTION) throw hasFailed(error)
      if (code !== LOCK_NOT_AVAILABLE) throw error
      return new LockTimeoutError(keys.join(', '), this.#lockTimeoutMs, { cause: error })
    }
  }

  #refused(site: string, refusal: ConcurrentModificationError | LockTimeoutError): void {
    if (refusal instanceof LockTimeoutError) {
      this.#countsOf(site).lockTimeouts++
      return
    }
    this.#countsOf(site).conflicts++
    harmlessly(() => this.#onConflict(refusal))
  }

  #written(site: string, times: GuardedTimes): void {
    this.#countsOf(site).written++
    const { lockWaitMs = 0, criticalMs = 0 } = this.#times.get(site) ?? {}
    this.#times.set(site, { lockWaitMs: lockWaitMs + times.lockWaitMs, criticalMs: criticalMs + times.criticalMs })
    harmlessly(() => this.#onWritten({ site, ...times }))
  }

  #countsOf(site: string) {
    let counts = this.#counts.get(site)
    if (counts === undefined) {
      counts = { written: 0, conflicts: 0, lockTimeouts: 0, unguarded: 0 }
      this.#counts.set(site, counts)
    }
    return counts
  }
}

/** Distinct and sorted: two callers with the same keys have the same list. */
function checkKeys(lock: string | readonly string[]): string[] {
  const keys = typeof lock === 'string' ? [lock] : lock
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > MOST_KEYS) {
    throw new InvalidOptionError('lock', `it must be a key such as 'entity:7', or 1 to ${MOST_KEYS} of them`)
  }
  return [...new Set(Array.from(keys, (key) => checkText('lock', key, 1_000)))].sort()
}

function compare(
  site: string,
  seen: ReadonlySet<string>,
  found: ReadonlySet<string>,
): ConcurrentModificationError | undefined {
  return areSame(seen, found) ? undefined : new ConcurrentModificationError(site, [...seen], [...found])
}

function harmlessly(call: () => unknown): void {
  try {
    const answer = call()
    if (answer instanceof Promise) answer.catch(() => {})
  } catch {}
}

function checkAnswer(answer: unknown): void {
  if (answer === 'locked') return
  if (answer === 'no transaction') {
    throw new InvalidOptionError(
      'tx',
      'no transaction is open on it, so the lock would end with its own statement and protect nothing; send BEGIN first',
    )
  }
  throw new InvalidOptionError(
    'tx',
    `its isolation level is ${answer}, so reads after the lock would not see what other transactions committed ` +
      'since it began; begin it with ISOLATION LEVEL READ COMMITTED',
  )
}
