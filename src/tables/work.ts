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
/** Sooner than the message comes again, most often: it would find the row claimed, and be dropped. */
const GIVE_BACK = { firstMs: 50, maxMs: 1_000 }

/**
 * failed: the effect threw, and that is recorded; `givenUp`, if it is not tried again. lost: it was too slow, and its row was
 * taken back. released: it threw when it was told to stop, or threw Snooze, which says after how long it wants to be asked
 * again; the row is as if it had never been claimed. concurrent_modification: a write guard in the effect found that another
 * writer came first; the row is as if it had never been claimed.
 */
export type Worked =
  | TransitionOutcome
  | ClaimOutcome
  | { readonly outcome: 'failed'; readonly error: unknown; readonly givenUp: boolean }
  | { readonly outcome: 'released'; readonly delayMs?: number }
  | { readonly outcome: 'concurrent_modification'; readonly error: ConcurrentModificationError }

export interface WorkOptions {
  /** Aborts the effect, too; what it throws then is nobody's fault, and spends no attempt. */
  readonly stopping?: AbortSignal
}

/** What an effect gets. */
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
  // The token first: if the reply is lost, the claim can be asked for again.
  const token = randomUUID()
  const sentAt = monotonicMs()
  // A few times: whoever brought the message will bring it again.
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
  // The effect has happened or has not: nothing that may pass must make anybody forget which.
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
      const isNobodysFault = stopping?.aborted || error instanceof Snooze
      return isNobodysFault ? await released(error) : await failed(error, retryOf(error))
    }
    try {
      return await insist(() => table.commit(db, claim, set ?? {}))
    } catch (error) {
      // What it returned can never be stored. To try again would be to do it again: a person has to look.
      if (isFinal(error)) return await failed(error, { retry: false })
      throw error
    }
  } finally {
    lease.stop()
  }
}

/**
 * A claim of which nobody was told: it may have been carried out before the database was gone, and then the row would be
 * nobody's for its whole life, and an attempt be counted for an effect that never began. So it is released, when that can be
 * said; until then whoever comes finds it claimed. Nobody can lose a row by it: the token was made up for this one call, is
 * random, was given to no effect and is never used again, so a claim with this token is this one. A claim that is carried
 * out only after the answer to this, late on its way, is left to recovery, as everything was before.
 */
async function giveBack(table: StatusTable, db: Queryable, claim: RowClaim, until: number): Promise<void> {
  for (let attempt = 1; monotonicMs() < until; attempt++) {
    try {
      await table.release(db, claim)
      return
    } catch (error) {
      if (isFinal(error)) return // A pool that was ended, say. Recovery takes the row back.
    }
    // A process that has nothing else to do need not stay for this.
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

/** The lease of one row's claim, and the time that its effect has. Its signal aborts at the end of either. */
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

  /** The claim may have been taken back by now. */
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
    else this.#abort(new Error('The row was taken back.'))
  }
}
