/** Each plant in a short run: does the checker detect it? */

import { LEASE_MS, SWEEP_MS } from '../../common/drive.ts'
import { tryPlants as tryAll } from '../../common/try-plants.ts'
import { check } from '../checker.ts'
import { drive } from '../drive.ts'
import { historyOf } from '../history.ts'
import { planOf } from '../plan.ts'
import { PLANTS } from './all.ts'

const FIRE_MS = 14_000
const SETTLE_MS = 15_000

/** Returns 0 if all were detected, each by its rule. */
export async function tryPlants(names: readonly string[], seed: number, signal: AbortSignal): Promise<number> {
  console.log(`Seed ${seed}: ${names.length} planted bugs, ${FIRE_MS / 1_000} s each\n`)
  return tryAll(
    names.map((name) => [name, PLANTS[name]!]),
    async (plant) => {
      const plan = planOf(seed, FIRE_MS, PLANTS[plant])
      const { lines, rows, directory } = await drive(plan, { plant, settleMs: SETTLE_MS, signal })
      const findings = check(historyOf(plan, lines, rows, { leaseMs: LEASE_MS, sweepMs: SWEEP_MS }))
      return { findings, isPlanted: lines.some(({ e }) => e === 'planted'), directory }
    },
  )
}
