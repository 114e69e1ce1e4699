import type { Lane } from '../db/lane.ts'
import { TAKE_DUTIES } from './duty.sql.ts'
import { numericArray } from './parameters.ts'

export const DUTIES = ['sweep', 'suspects', 'expire', 'prune', 'partitions'] as const
export type Duty = (typeof DUTIES)[number]

/** The duties that fell to this caller, and how long it is until another may be due. */
export async function takeDuties(
  lane: Lane,
  everyMs: Readonly<Record<Duty, number>>,
): Promise<{ taken: Duty[]; nextInMs: number }> {
  const rows = await lane.run(TAKE_DUTIES, [DUTIES, numericArray(DUTIES.map((duty) => everyMs[duty]))])
  const taken = rows.filter((row) => row[1] === 't').map((row) => row[0] as Duty)
  const waits = rows.map(([name, due, waitMs]) => {
    const interval = everyMs[name as Duty]
    // Somebody else has just taken it, or we have: an interval from now.
    return due === 't' || Number(waitMs) <= 0 ? interval : Number(waitMs)
  })
  return { taken, nextInMs: Math.min(...waits) }
}
