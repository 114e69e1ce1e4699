/** Dead letters that fit a filter, page by page: an operator looks at them before they are redriven. */
import { checkText } from '../core/check.ts'
import type { Lane } from '../db/lane.ts'
import type { JobId } from '../jobs/job.ts'
import { PAGE_OF_DEAD_LETTERS } from './dead-letters.sql.ts'

const PAGE = 1_000

export interface DeadLettersFilter {
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  readonly reason?: string | undefined
  /** A part of the error's name or message, in any case. */
  readonly error?: string | undefined
  /** Died at least so long ago. */
  readonly olderThanMs?: number | undefined
}

export interface DeadLetter {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly reason: string
  readonly error: string
  readonly diedAt: Date
}

/** Oldest first, in pages. One that is redriven meanwhile does not come twice. */
export async function* deadLetters(lane: Lane, filter: DeadLettersFilter): AsyncGenerator<DeadLetter[]> {
  const text = (name: keyof DeadLettersFilter & string, value: string | undefined) =>
    value === undefined ? null : checkText(name, value, 1_000)
  const values = [
    text('queue', filter.queue),
    text('kind', filter.kind),
    text('reason', filter.reason),
    text('error', filter.error),
    filter.olderThanMs ?? 0,
  ]
  type Column = 'id' | 'queue' | 'kind' | 'reason' | 'error' | 'died_at' | 'died_ms' | 'fits'
  for (let last: { at: string | null; id: string | null } = { at: null, id: null }; ; ) {
    const rows = await lane.run<Column>(PAGE_OF_DEAD_LETTERS, [...values, last.at, last.id, PAGE])
    const fitting = rows.filter(({ fits }) => fits === 't')
    yield fitting.map((row) => ({
      id: row.id as JobId,
      queue: row.queue!,
      kind: row.kind!,
      reason: row.reason!,
      error: row.error ?? '',
      diedAt: new Date(Number(row.died_ms)),
    }))
    if (rows.length < PAGE) return
    last = { at: rows.at(-1)!.died_at, id: rows.at(-1)!.id }
  }
}
