/** The attempts of a step, until it has a record; and what undoes the steps of a run. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClientBase, Pool } from 'pg'
import { describeError } from '../core/error-description.ts'
import { LeaseLostError } from '../core/errors.ts'
import { Cancel, Snooze } from '../core/steering.ts'
import { encodeSafely } from '../core/storable.ts'
import { monotonicMs, sleep } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { withTransaction } from '../db/transaction.ts'
import { effectKey } from '../effects/key.ts'
import { NotUndoneError, StepFailedError, tooLarge } from './errors.ts'
import type { Entry } from './journal.ts'
import type { NewRecord, Turn } from './records.ts'
import { type Call, hasEnded } from './replay.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'
import type { Step } from './run.ts'
import type { Slice } from './slice.ts'
import { HOLD_RUN } from './step.sql.ts'

/** The code goes on with it, so it may be larger than the result of a job, which is for people. */
const RESULT_BYTES = 4 * 1024 * 1024

/** Less than the first delay of the default policy, which tests pass over by their clock. */
const SHORT_MS = 250

/** The step that the caller is in. */
const inside = new AsyncLocalStorage<string>()

export function currentStep(): string | undefined {
  return inside.getStore()
}

/** The name of what undoes a step. */
export function compensationOf(step: string, nth: number): string {
  return nth === 1 ? step : `${step}#${nth}`
}

/** Makes one attempt, and stores its record. */
type Attempt = (attempt: number, startedAt: number) => Promise<Entry>

interface Compensation {
  readonly call: Call
  readonly result: unknown
  readonly undo: (result: never, step: Step) => unknown
  readonly retry: RetryPolicy
}

export class Steps {
  readonly #slice: Slice
  readonly #lane: Lane
  readonly #pool: Pool
  #compensations: Compensation[] = []

  constructor(slice: Slice, lane: Lane, pool: Pool) {
    this.#slice = slice
    this.#lane = lane
    this.#pool = pool
  }

  /** The record of a step: the one that is there, or that of the attempts which are made now. */
  run(call: Call, retry: RetryPolicy, work: (step: Step) => unknown): Promise<Entry> {
    return this.#attempts(call, retry, async (attempt, startedAt) => {
      const step = this.#stepOf(call, attempt)
      const result = await this.#slice.busy(async () => inside.run(call.name, work, step))
      return this.#slice.record(call, { attempt, startedAt, ...encoded(result) })
    })
  }

  /** The same in a transaction that commits with the record. */
  runWithin(call: Call, retry: RetryPolicy, work: (tx: ClientBase) => Promise<unknown>): Promise<Entry> {
    return this.#attempts(call, retry, (attempt, startedAt) =>
      this.#slice.busy(() => this.#within(call, { attempt, startedAt }, work)),
    )
  }

  compensateBy(call: Call, result: unknown, undo: Compensation['undo'], retry: RetryPolicy): void {
    this.#compensations.push({ call, result, undo, retry })
  }

  forgetCompensations(): void {
    this.#compensations = []
  }

  /**
   * Undoes what was recorded, the last step first, each by a step of its own. Branches that still run end first: their
   * steps are undone, too. If a compensation fails for good, the others run still, and it throws at the end.
   */
  async undo(why: string): Promise<void> {
    await this.#slice.endBranches()
    const failed: Entry[] = []
    for (const { call, result, undo, retry } of this.#compensations.splice(0).toReversed()) {
      const undoing = this.#slice.call('compensation', compensationOf(call.name, call.nth))
      const entry = await this.run(undoing, retry, (step) => undo(result as never, step))
      if (entry.state === 'failed') failed.push(entry)
    }
    if (failed.length > 0) throw new NotUndoneError(failed, why)
  }

  async #attempts(call: Call, retry: RetryPolicy, attemptOnce: Attempt): Promise<Entry> {
    const slice = this.#slice
    let { entry } = call
    if (entry !== undefined && hasEnded(entry)) return slice.deliver(entry)
    await slice.gate(call)
    for (let attempt = (entry?.attempt ?? 0) + 1; ; attempt++) {
      if (entry?.wakeAt !== undefined) {
        await this.#waitUntil(entry.wakeAt, call)
        await slice.gate(call)
      }
      const startedAt = monotonicMs()
      try {
        return await attemptOnce(attempt, startedAt)
      } catch (error) {
        await slice.goOn()
        if (call.type !== 'compensation' && (error instanceof Cancel || error instanceof Snooze)) throw error
        const failure = { attempt, startedAt, error: encodeSafely(describeError(error)) }
        const wakeMs = retryDelayMs(retry, attempt, error)
        if (wakeMs === undefined) return slice.record(call, { ...failure, state: 'failed' })
        entry = await slice.record(call, { ...failure, state: 'retrying', wakeMs })
      }
    }
  }

  /** Until the next attempt. To park costs more than a short wait, and takes longer. */
  async #waitUntil(at: number, { type }: Call): Promise<void> {
    const slice = this.#slice
    const ms = at - monotonicMs()
    if (ms <= SHORT_MS) await slice.busy(() => sleep(Math.max(0, Math.ceil(ms))))
    else await slice.wait([], at, () => (at <= monotonicMs() ? true : undefined), type === 'compensation')
  }

  async #within(
    call: Call,
    times: Pick<NewRecord, 'attempt' | 'startedAt'>,
    work: (tx: ClientBase) => Promise<unknown>,
  ): Promise<Entry> {
    const slice = this.#slice
    const { claimed } = slice.carrier
    const { records } = slice
    const lost = new LeaseLostError(claimed)
    let turn: Turn | undefined
    try {
      const entry = await withTransaction(this.#pool, async (tx) => {
        const lane = this.#lane.within(tx)
        if ((await lane.run(HOLD_RUN, [claimed.jobId, claimed.claimId])).length === 0) throw lost
        const result = await inside.run(call.name, work, tx)
        const made = records.newEntry(call, { ...times, ...encoded(result) })
        turn = records.turn()
        if (!(await slice.journal.addWithin(lane, made))) throw lost
        return made
      })
      const recorded = records.acknowledge(entry)
      await turn!.comes()
      return recorded
    } catch (error) {
      // After the work, only the database knows whether it has committed: the run is released, and its next slice reads what is on
      // record. Before that nothing was committed, and the work may have got such an error from elsewhere.
      if (error === lost || (turn !== undefined && isOutage(error))) return slice.abandon()
      throw error
    } finally {
      void turn?.over()
    }
  }

  #stepOf({ type, name, nth }: Call, attempt: number): Step {
    const { claimed } = this.#slice.carrier
    const { signal } = type === 'compensation' ? this.#slice.closing : this.#slice.aborting
    return { attempt, signal, effectKey: effectKey(claimed, `${type} ${name} ${nth}`) }
  }
}

/** As it is stored. What is too large fails the step for good: its effect has happened. */
function encoded(result: unknown): Pick<NewRecord, 'state' | 'result' | 'error'> {
  if (result === undefined) return { state: 'recorded', result: null }
  const text = encodeSafely(result, { bytes: RESULT_BYTES })
  if (!text.startsWith(`{"truncated":true,"limitBytes":${RESULT_BYTES},`)) return { state: 'recorded', result: text }
  return { state: 'failed', error: tooLarge('its result', RESULT_BYTES) }
}

/** The value of a record, or what it throws. */
export function resultOf({ name, state, result, error }: Pick<Entry, 'name' | 'state' | 'result' | 'error'>): unknown {
  if (state === 'failed') throw new StepFailedError(name, error === null ? {} : JSON.parse(error))
  return result === null ? undefined : JSON.parse(result)
}
