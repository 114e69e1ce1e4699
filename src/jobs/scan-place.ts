import type { ClaimedJob } from './job.ts'
import type { Line } from './lines.ts'
import type { ScanStart } from './scan-walk.ts'
import type { StoredTime } from './stored-time.ts'

/** What a worker knows of a line. */
export interface Place extends Line {
  readonly cursors: Map<number, ScanStart & { readonly at: StoredTime }>
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

export function isSameSpot(one: ClaimedJob, other: ClaimedJob): boolean {
  return one.priority === other.priority && one.queue === other.queue && one.line === other.line
}
