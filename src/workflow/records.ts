import { setImmediate } from 'node:timers/promises'
import { Fatal } from '../core/steering.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lease } from '../jobs/job.ts'
import type { Entry, EntryState, NewEntry } from './journal.ts'
import type { Call } from './replay.ts'

/** As many are loaded when a run resumes. */
const MOST_STEPS = 100_000

export interface NewRecord {
  readonly state: EntryState
  readonly attempt?: number
  readonly result?: string | null
  readonly error?: string | null
  readonly wakeMs?: number
  readonly signalId?: string
  readonly startedAt?: number
}

export interface Turn {
  /** Those before it are over. */
  comes(): Promise<void>
  over(): Promise<void>
}

/** Numbers the records of a run. Each names the last one that was acknowledged, which a failover may have lost (step.sql.ts). */
export class Records {
  readonly #lease: Lease
  #place: number
  #acknowledged: number
  #last: Promise<void> | undefined

  constructor(lease: Lease, lastPlace: number) {
    this.#lease = lease
    this.#place = lastPlace
    this.#acknowledged = lastPlace
  }

  newEntry({ type, name, nth }: Call, record: NewRecord): NewEntry {
    if (this.#place >= MOST_STEPS) throw new Fatal(`a run records at most ${MOST_STEPS} steps; continue in another run`)
    return {
      lease: this.#lease,
      place: ++this.#place,
      after: this.#acknowledged,
      type,
      name,
      nth,
      state: record.state,
      attempt: record.attempt ?? 1,
      result: record.result ?? null,
      error: record.error ?? null,
      wakeMs: record.wakeMs ?? null,
      signalId: record.signalId ?? null,
      startedAt: record.startedAt ?? monotonicMs(),
    }
  }

  /**
   * For a record that is about to be sent. Records may be acknowledged in another order than that of their places. The code gets
   * them by place, as it will when the run resumes: the continuation of an earlier one runs before a later one is delivered.
   */
  turn(): Turn {
    const before = this.#last
    let resolve = () => {}
    const mine = new Promise<void>((resolved) => {
      resolve = resolved
    })
    this.#last = mine
    return {
      comes: async () => {
        if (before === undefined) return
        await before
        await setImmediate()
      },
      over: async () => {
        await before
        resolve()
        if (this.#last === mine) this.#last = undefined
      },
    }
  }

  /** It is on record. */
  acknowledge(entry: NewEntry): Entry {
    this.#acknowledged = Math.max(this.#acknowledged, entry.place)
    const { wakeMs } = entry
    return { ...entry, wakeAt: wakeMs === null ? undefined : monotonicMs() + wakeMs, childId: undefined }
  }
}
