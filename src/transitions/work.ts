/** Claim, effect, commit, with the claim kept alive in between and no connection held. */
import { randomUUID } from 'node:crypto'
import { backoffMs } from '../core/backoff.ts'
import { DeadlineError, TimedOutError } from '../core/errors.ts'
import { Snooze } from '../core/steering.ts'
import { Alarm, monotonicMs, sleep, withDeadline } from '../core/timer.ts'
import type { Queryable } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
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
 * again; the row is as if it had never been claimed.
 */
export type Worked =
  | TransitionOutcome
  | ClaimOutcome
  | { readonly outcome: 'failed'; readonly error: unknown; readonly givenUp: boolean }
  | { readonly outcome: 'released'; readonly delayMs?: number }

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
  const keeper = new Keeper(sentAt, lifeMs, timeoutMs, () => table.renew(db, claim))
  // The effect has happened or has not: nothing that may pass must make anybody forget which.
  const insist = <T>(record: () => Promise<T>) => patiently((_, error) => !isFinal(error) && !keeper.isOver, record)
  const failed = async (error: unknown, retry: FailOptions): Promise<Worked> => {
    const recorded = await insist(() => table.fail(db, claim, error, retry))
    return recorded.outcome === 'applied' ? { outcome: 'failed', error, givenUp: recorded.givenUp } : recorded
  }
  const released = async (error: unknown): Promise<Worked> => {
    const later = error instanceof Snooze ? { delayMs: error.delayMs } : {}
    const given = await insist(() => table.release(db, claim, { after: later.delayMs ?? 0 }))
    return given.outcome === 'applied' ? { outcome: 'released', ...later } : given
  }
  const signal = stopping === undefined ? keeper.signal : AbortSignal.any([keeper.signal, stopping])
  try {
    let set: Values<string> | null | undefined
    try {
      set = await effect({ ...claim, signal, effectKey: (name) => table.effectKey(claim, name) })
    } catch (error) {
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
    keeper.stop()
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

/** Renews a claim three times in its life, and knows when it may be over. */
class Keeper {
  readonly #lifeMs: number
  readonly #renew: () => Promise<ClaimOutcome>
  readonly #lost = new AbortController()
  readonly #done = new AbortController()
  /** A renewal that is never answered must not keep the holder from being told. */
  readonly #overSoon = new Alarm(() => this.#abort(new Error('The claim could not be renewed in time.')))
  readonly #tooLong: Alarm
  #deadline: number

  /** `sentAt`: when the claim was sent. It lasts at least from then. */
  constructor(sentAt: number, lifeMs: number, timeoutMs: number, renew: () => Promise<ClaimOutcome>) {
    this.#lifeMs = lifeMs
    this.#renew = renew
    this.#deadline = sentAt + lifeMs
    this.#tooLong = new Alarm(() => this.#abort(new TimedOutError('The effect', timeoutMs)))
    this.#tooLong.set(monotonicMs() + timeoutMs)
    void this.#run()
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** The claim may have been taken back by now. */
  get isOver(): boolean {
    return monotonicMs() >= this.#deadline
  }

  stop(): void {
    this.#done.abort()
    this.#overSoon.set(Number.POSITIVE_INFINITY)
    this.#tooLong.set(Number.POSITIVE_INFINITY)
  }

  #abort(reason: Error): void {
    if (this.#done.signal.aborted) return
    this.stop()
    this.#lost.abort(reason)
  }

  async #run(): Promise<void> {
    const { signal } = this.#done
    for (let failures = 0; !signal.aborted; ) {
      this.#overSoon.set(this.#deadline - Math.min(this.#lifeMs / 10, 1_000))
      await sleep(failures === 0 ? this.#lifeMs / 3 : backoffMs(failures, BACKOFF), signal)
      if (signal.aborted) return
      const sentAt = monotonicMs()
      const late = () => new DeadlineError('Renewing a claim', this.#lifeMs / 3)
      try {
        const { outcome } = await withDeadline(this.#renew(), this.#lifeMs / 3, late)
        if (outcome !== 'applied') return this.#abort(new Error('The row was taken back.'))
        this.#deadline = sentAt + this.#lifeMs
        failures = 0
      } catch {
        failures++
      }
    }
  }
}
