import type { ClaimedJob, JobId } from './job.ts'
import { type Line, nameOf } from './lines.ts'
import type { StoredTime } from './stored-time.ts'

/** What a worker knows of a line. */
export interface Place extends Line {
  /** By priority: the first row of the batch taken there last. */
  readonly cursors: Map<number, { readonly at: StoredTime; readonly jobId: JobId }>
  /** It was asked before. */
  known: boolean
  /** It had more than its share when it was asked last. */
  deep: boolean
  /** Everything that was due by then, and committed, was claimed. Undefined: there was more. */
  emptyAt: StoredTime | undefined
}

export function newPlace({ queue, line }: Line): Place {
  return { queue, line, cursors: new Map(), known: false, deep: false, emptyAt: undefined }
}

function isSameSpot(one: ClaimedJob, other: ClaimedJob): boolean {
  return one.priority === other.priority && one.queue === other.queue && one.line === other.line
}

/** The first job of each spot, and how many there are. Jobs of one spot mostly follow each other: then it need not be looked up. */
export function bySpot(jobs: readonly ClaimedJob[]): Iterable<{ readonly first: ClaimedJob; readonly count: number }> {
  const spots = new Map<string, { readonly first: ClaimedJob; count: number }>()
  let spot: { readonly first: ClaimedJob; count: number } | undefined
  for (const job of jobs) {
    if (spot === undefined || !isSameSpot(spot.first, job)) {
      const key = `${job.priority}${nameOf(job)}`
      spot = spots.get(key) ?? { first: job, count: 0 }
      spots.set(key, spot)
    }
    spot.count++
  }
  return spots.values()
}
