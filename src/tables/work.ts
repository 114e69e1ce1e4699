/** Claim, effect, commit, with the claim kept alive in between and no connection held. */
import { randomUUID } from 'node:crypto'
import { backoffMs } from '../core/backoff.ts'
import { ConcurrentModificationError, DeadlineError, TimedOutError } from '../core/errors.ts'
import { Snooze } from '../core/steering.ts'
import { Alarm, monotonicMs, sleep, withDeadline } from '../core/timer.ts'
import type { Queryable } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { type KeptLease, LeaseKeeper } from '../runtime/lease-keeper.ts'
import { type FailOptions, isFinal, retryOf } from './failure.ts'
import type { ClaimOutcome, RowClaim, TransitionOutcome, Values } from './outcomes.ts'
import type { RowId } from './row-id.ts'
import type { StatusTable } from './status-table.ts'

const CLAIM_ATTEMPTS = 5
const BACKOFF = { firstMs: 50, maxMs: 5_000 }
/** Usually shorter than a redelivery, which would find the row claimed and drop the message. */
const GIVE_BACK = { firstMs: 50, maxMs: 1_000 }

/**
 * failed: the effect threw, and the error is recorded; `givenUp` if there is no retry. lost: it was too slow, and the row
 * was reclaimed. released: it threw after the stop signal, or threw Snooze, with its delay; the row is
 * as if never claimed. concurrent_modification: a write guard in the effect found that another writer came first; the row
 * is as if never claimed.
 */
export type Worked =
  | TransitionOutcome
  | ClaimOutcome
  | { readonly outcome: 'failed'; readonly error: unknown; readonly givenUp: boolean }
  | { readonly outcome: 'released'; readonly delayMs?: number }
  | { readonly outcome: 'concurrent_modification'; readonly error: ConcurrentModificationError }

export interface WorkOptions {
  /** Aborts the effect, too; an error after that spends no attempt. */
  readonly stopping?: AbortSignal
}

/** The argument of an effect. */
export interface WorkClaim extends RowClaim {
  /** Aborted when the claim is lost, cannot be renewed in time, or the effect takes too long. Pass it on. */
  readonly signal: AbortSignal
  /** For a provider that takes idempotency keys: the same for each attempt on this row. */
  effectKey(effect: string): string
}

export async function workOnRow(
  table: StatusTable,
  db: Queryable,
  id: RowId,
  effect: (claim: WorkClaim) => Promise<Values<string> | null | undefined>,
  {
    stuckAfterMs: lifeMs,
    timeoutMs,
    stopping,
  }: WorkOptions & { readonly stuckAfterMs: number; readonly timeoutMs: number },
): Promise<Worked> {
  // The token first: if the reply is lost, the same claim can be requested again.
  const token = randomUUID()
  const sentAt = monotonicMs()
  // A few times: the queue redelivers the message anyway.
  let maybeClaimed = false
  const isWorthIt = (attempt: number, error: unknown) => {
    maybeClaimed ||= isOutage(error)
    return isOutage(error) && attempt < CLAIM_ATTEMPTS
  }
  const claimed = await patiently(isWorthIt, () => table.claim(db, id, { token })).catch((error) => {
    if (maybeClaimed) void giveBack(table, db, { id, token }, sentAt + lifeMs)
    throw error
  })
  if (claimed.outcome !== 'applied') return claimed
  const { claim } = claimed
  const lease = new RowLease(sentAt, lifeMs, timeoutMs, () => table.renew(db, claim))
  // The effect has happened or has not: a temporary error must not lose that fact.
  const insist = <T>(record: () => Promise<T>) => patiently((_, error) => !isFinal(error) && !lease.isOver, record)
  const failed = async (error: unknown, retry: FailOptions): Promise<Worked> => {
    const recorded = await insist(() => table.fail(db, claim, error, retry))
    return recorded.outcome === 'applied' ? { outcome: 'failed', error, givenUp: recorded.givenUp } : recorded
  }
  const released = async (error: unknown): Promise<Worked> => {
    const later = error instanceof Snooze ? { delayMs: error.delayMs } : {}
    const given = await insist(() => table.release(db, claim, { after: later.delayMs ?? 0 }))
    return given.outcome === 'applied' ? { outcome: 'released', ...later } : given
  }
  const signal = stopping === undefined ? lease.signal : AbortSignal.any([lease.signal, stopping])
  try {
    let set: Values<string> | null | undefined
    try {
      set = await effect({ ...claim, signal, effectKey: (name) => table.effectKey(claim, name) })
    } catch (error) {
      if (error instanceof ConcurrentModificationError) {
        const given = await released(error)
        return given.outcome === 'released' ? { outcome: 'concurrent_modification', error } : given
      }
      const isReleased = stopping?.aborted || error instanceof Snooze
      return isReleased ? await released(error) : await failed(error, retryOf(error))
    }
    try {
      return await insist(() => table.commit(db, claim, set ?? {}))
    } catch (error) {
      // The result can never be stored. A retry would repeat the effect, so a person has to look.
      if (isFinal(error)) return await failed(error, { retry: false })
      throw error
    }
  } finally {
    lease.stop()
  }
}

/**
 * Releases a claim whose reply was lost. It may have been carried out before the database went away; then the row would stay
 * claimed without a holder until it expires, and an attempt be counted for an effect that never began. Until the release
 * succeeds, other workers find the row claimed. No other claim can be released by it: the token is random, made for this one
 * call, given to no effect and never used again. A claim that Postgres carries out only after this release is left to
 * recovery.
 */
async function giveBack(table: StatusTable, db: Queryable, claim: RowClaim, until: number): Promise<void> {
  for (let attempt = 1; monotonicMs() < until; attempt++) {
    try {
      await table.release(db, claim)
      return
    } catch (error) {
      if (isFinal(error)) return // For example a pool that was ended. Recovery reclaims the row.
    }
    // Does not keep an otherwise idle process alive.
    await new Promise<void>((resolve) => new Alarm(resolve).set(monotonicMs() + backoffMs(attempt, GIVE_BACK)))
  }
}

async function patiently<T>(again: (attempt: number, error: unknown) => boolean, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (!again(attempt, error)) throw error
    }
    await sleep(backoffMs(attempt, BACKOFF))
  }
}

/** The lease of one row's claim, and the time limit of its effect. Its signal aborts at the end of either. */
class RowLease implements KeptLease {
  grantedUntil = 0
  deadline = 0
  readonly #lifeMs: number
  readonly #renew: () => Promise<ClaimOutcome>
  readonly #keeper: LeaseKeeper<RowLease>
  readonly #lost = new AbortController()
  readonly #tooLong: Alarm
  #isDone = false

  /** `sentAt`: when the claim was sent. It lasts at least from then. */
  constructor(sentAt: number, lifeMs: number, timeoutMs: number, renew: () => Promise<ClaimOutcome>) {
    this.#lifeMs = lifeMs
    this.#renew = renew
    this.#keeper = new LeaseKeeper<RowLease>(lifeMs, {
      renew: () => this.#renewOnce(),
      expired: () => this.#abort(new Error('The claim could not be renewed in time.')),
      problem: () => {}, // It is retried. If that fails, too, the claim expires.
    })
    this.#keeper.granted(this, sentAt + lifeMs)
    this.#keeper.keep(this)
    this.#keeper.start()
    this.#tooLong = new Alarm(() => this.#abort(new TimedOutError('The effect', timeoutMs)))
    this.#tooLong.set(monotonicMs() + timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** The claim may have been reclaimed by now. */
  get isOver(): boolean {
    return monotonicMs() >= this.grantedUntil
  }

  stop(): void {
    this.#isDone = true
    void this.#keeper.stop()
    this.#tooLong.set(Number.POSITIVE_INFINITY)
  }

  #abort(reason: Error): void {
    if (this.#isDone) return
    this.stop()
    this.#lost.abort(reason)
  }

  async #renewOnce(): Promise<void> {
    const sentAt = monotonicMs()
    const late = () => new DeadlineError('Renewing a claim', this.#lifeMs / 3)
    const { outcome } = await withDeadline(this.#renew(), this.#lifeMs / 3, late)
    if (outcome === 'applied') this.#keeper.granted(this, sentAt + this.#lifeMs)
    else this.#abort(new Error('The row was reclaimed.'))
  }
}
