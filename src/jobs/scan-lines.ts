/** How many lines of the ring a claim asks. */
import type { Place } from './scan-place.ts'

const FEWEST_LINES = 4
export const JOBS_OF_A_LINE = 4
/** A claim asks more lines than fill it, since some have fewer jobs. It looks at no more of them than it needs. */
const LINES_TO_SPARE = 2

export function linesFor(limit: number): number {
  return Math.max(FEWEST_LINES, Math.ceil((LINES_TO_SPARE * limit) / JOBS_OF_A_LINE))
}

/** As many as fill a claim, as far as is known. A look pays for each line that it asks, also for those that it does not reach. */
export function enough(places: readonly Place[], limit: number): readonly Place[] {
  let lines = linesFor(limit)
  const end = places.findIndex((place) => place.deep && place.line !== 0 && lines-- === 0)
  return end === -1 ? places : places.slice(0, end)
}
