/** Claim, effect, commit, with the claim kept alive in between and no connection held. */
import { randomUUID } from 'node:crypto'
import { backoffMs } from '../core/backoff.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import type { Queryable } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import type { ClaimOutcome, RowClaim, RowId, StatusTable, TransitionOutcome, Values } from './status-table.ts'

const CLAIM_ATTEMPTS = 5
const OUTAGE_BACKOFF = { firstMs: 50, maxMs: 5_000 }

/** failed: the effect threw, and that is recorded. lost: it was too slow, and its row was taken back. */
export type Worked = TransitionOutcome | ClaimOutcome | { readonly outcome: 'failed'; readonly error: unknown }

export async function workOnRow(
  table: StatusTable,
  db: Queryable,
  id: RowId,
  effect: (claim: RowClaim & { readonly signal: AbortSignal }) => Promise<Values<string> | undefined>,
  stuckAfterMs: number,
): Promise<Worked> {
  // The token first: if the reply is lost, the claim can be asked for again.
  const token = randomUUID()
  const sentAt = monotonicMs()
  const claimed = await patiently(CLAIM_ATTEMPTS, () => table.claim(db, id, { token }))
  if (claimed.outcome !== 'applied') return claimed
  const { claim } = claimed
  const keeper = new Keeper(sentAt, stuckAfterMs, () => table.renew(db, claim))
  const failed = async (error: unknown): Promise<Worked> => {
    const recorded = await keeper.insist(() => table.fail(db, claim, error))
    return recorded.outcome === 'applied' ? { outcome: 'failed', error } : recorded
  }
  try {
    let set: Values<string> | undefined
    try {
      set = await effect({ ...claim, signal: keeper.signal })
    } catch (error) {
      return await failed(error)
    }
    try {
      // It has happened: an outage must not make anybody forget it.
      return await keeper.insist(() => table.commit(db, claim, set))
    } catch (error) {
      if (isOutage(error)) throw error
      return await failed(error) // What it returned cannot be stored.
    }
  } finally {
    await keeper.stop()
  }
}

/** Again while the server cannot be reached, a few times: whoever brought the message will bring it again. */
async function patiently<T>(attempts: number, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (!isOutage(error) || attempt === attempts) throw error
    }
    await sleep(backoffMs(attempt, OUTAGE_BACKOFF))
  }
}

/** Renews a claim three times in its life, and knows when it may be over. */
class Keeper {
  readonly #lifeMs: number
  readonly #renew: () => Promise<ClaimOutcome>
  readonly #lost = new AbortController()
  readonly #done = new AbortController()
  readonly #running: Promise<void>
  #deadline: number

  constructor(sentAt: number, lifeMs: number, renew: () => Promise<ClaimOutcome>) {
    this.#lifeMs = lifeMs
    this.#renew = renew
    this.#deadline = sentAt + lifeMs
    this.#running = this.#run()
  }

  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** The claim may have been taken back by now. */
  get isOver(): boolean {
    return monotonicMs() >= this.#deadline
  }

  /** Again while the server cannot be reached and the claim can still be ours. */
  async insist<T>(record: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await record()
      } catch (error) {
        if (!isOutage(error) || this.isOver) throw error
      }
      await sleep(backoffMs(attempt, OUTAGE_BACKOFF))
    }
  }

  async stop(): Promise<void> {
    this.#done.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#done
    for (let failures = 0; !signal.aborted; ) {
      const wait = failures === 0 ? this.#lifeMs / 3 : backoffMs(failures, OUTAGE_BACKOFF)
      await sleep(Math.min(wait, this.#deadline - monotonicMs()), signal)
      if (signal.aborted) return
      const sentAt = monotonicMs()
      try {
        const { outcome } = await this.#renew()
        if (outcome !== 'applied') return this.#lost.abort(new Error('The row was taken back.'))
        this.#deadline = sentAt + this.#lifeMs
        failures = 0
      } catch {
        failures++
        if (this.isOver) return this.#lost.abort(new Error('The claim could not be renewed.'))
      }
    }
  }
}
