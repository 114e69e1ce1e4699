/** How many lines of the ring a claim asks. */
import type { Place } from './scan-place.ts'

const FEWEST_LINES = 4
/** Lines that were never asked may be empty, and a look at an empty one costs little. */
const FEWEST_UNKNOWN = 64
export const JOBS_OF_A_LINE = 4
/** A claim asks more lines than fill it, since some have fewer jobs. It looks at no more of them than it needs. */
const LINES_TO_SPARE = 2

export function linesFor(limit: number): number {
  return Math.max(FEWEST_LINES, Math.ceil((LINES_TO_SPARE * limit) / JOBS_OF_A_LINE))
}

/** It has more than its share of a claim, or was never asked and may have. */
export function mayBeDeep({ line, deep, known }: Place): boolean {
  return line !== 0 && (deep || !known)
}

/** As many as fill a claim, as far as is known. A look pays for each line that it asks, also for those that it does not reach. */
export function enough(places: readonly Place[], limit: number): readonly Place[] {
  let deep = linesFor(limit)
  let unknown = Math.max(FEWEST_UNKNOWN, deep)
  const end = places.findIndex((place) => mayBeDeep(place) && (place.known ? deep-- : unknown--) === 0)
  return end === -1 ? places : places.slice(0, end)
}
