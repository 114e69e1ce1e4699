/** Claims as the worker in seat 1 of 8 sends them, with marks of its own, from a queue on the ring. */
import type { Lane } from '../src/db/lane.ts'
import { type ClaimRequest, claimAndMeasure, newClaimId } from '../src/jobs/claim.ts'
import { ScanCursors } from '../src/jobs/scan-cursors.ts'
import { BucketSet } from '../src/ring/bits.ts'
import { ringMap } from '../src/ring/map.ts'
import type { Claims, ClaimsFrom } from './contenders/contender.ts'

const SEATS = 8
const SEAT = 1
/** What looks are reported to take: so long that no second one is due. */
const LOOK_MS = 1_000

/** The buckets of seat 1. */
export function ownBuckets(): number[] {
  const seats = Array.from({ length: SEATS }, (_, at) => ({ number: at + 1, weight: 1 }))
  return [...BucketSet.ownedBy(ringMap('consistent', seats), SEAT)]
}

export async function claimsOfASeat(
  lane: Lane,
  request: Omit<ClaimRequest, 'claimId' | 'limit'>,
  queue: string,
  from: ClaimsFrom,
): Promise<Claims> {
  const lines = [{ queue, line: 0 }, ...ownBuckets().map((bucket) => ({ queue, line: bucket + 1 }))]
  let cursors: ScanCursors | undefined
  const send = async (of: ScanCursors, limit: number, walkMs?: number) => {
    const asked = of.next(limit)
    const claimed = await claimAndMeasure(
      lane,
      { ...request, claimId: newClaimId(), limit, share: asked.share },
      asked.walk,
    )
    of.learn(asked, { ...claimed, limit, walkMs: walkMs ?? claimed.walkMs })
    return claimed.jobs.length
  }
  const fresh = () => {
    const made = new ScanCursors([queue], () => 0)
    made.setLines(lines)
    return made
  }
  return {
    claim: async (limit) => {
      if (from === 'start') return send(fresh(), limit)
      if (cursors === undefined) {
        cursors = fresh()
        // Rolled back with the first claim, which is part of the warm-up.
        while (cursors.lookIsDue()) await send(cursors, limit, LOOK_MS)
      }
      return send(cursors, limit)
    },
    close: async () => {},
  }
}
