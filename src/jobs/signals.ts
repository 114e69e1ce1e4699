import type { Lane, Row } from '../db/lane.ts'
import { PRUNE_RUNS, WAKE_SIGNALLED } from './wake.sql.ts'

const AT_ONCE = 500
/** Enough for one turn. */
const ROUNDS = 200

/** Wakes the runs of workflows that wait for signals which have come. Safe to do twice. */
export async function wakeSignalled(lane: Lane): Promise<void> {
  let after: string | null = '0'
  for (let round = 0; round < ROUNDS && after !== null; round++) {
    const rows: readonly Row<'last'>[] = await lane.run(WAKE_SIGNALLED, [after, AT_ONCE])
    after = rows[0]!.last
  }
}

/** Deletes what is on record of runs past their retention. Returns the job to go on after; null at the end. */
export async function pruneRuns(lane: Lane, after = '0', atMost = 1_000): Promise<string | null> {
  const [row] = await lane.run<'last'>(PRUNE_RUNS, [after, atMost])
  return row!.last
}
