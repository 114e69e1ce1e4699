/** Each plant in a short run: does the checker detect it? */
import { rmSync } from 'node:fs'
import { check } from '../checker.ts'
import { drive, LEASE_MS, SWEEP_MS } from '../drive.ts'
import { historyOf } from '../history.ts'
import { planOf } from '../plan.ts'
import { PLANTS } from './all.ts'

const FIRE_MS = 14_000
const SETTLE_MS = 15_000
const WIDTH = 20

/** Returns 0 if all were detected, each by its rule. */
export async function tryPlants(names: readonly string[], seed: number, signal: AbortSignal): Promise<number> {
  let missed = 0
  console.log(`Seed ${seed}: ${names.length} planted bugs, ${FIRE_MS / 1_000} s each\n`)
  for (const name of names) {
    const { what, breaks, ...planned } = PLANTS[name]!
    const plan = planOf(seed, FIRE_MS, planned)
    const { lines, rows, directory } = await drive(plan, { plant: name, settleMs: SETTLE_MS, signal })
    const findings = check(historyOf(plan, lines, rows, { leaseMs: LEASE_MS, sweepMs: SWEEP_MS }))
    const broken = findings.filter((each) => each.broken.length > 0)
    const by = broken.find(({ promise }) => breaks.test(promise))
    const isPlanted = lines.some(({ e }) => e === 'planted')
    if (by === undefined) missed++
    else rmSync(directory, { recursive: true })
    console.log(`${by === undefined ? '✗' : '✓'} ${name.padEnd(WIDTH)} ${what}`)
    if (by !== undefined) console.log(`  ${' '.repeat(WIDTH)} caught by "${by.promise}", ${by.broken.length} times`)
    else if (!isPlanted) console.log(`  ${' '.repeat(WIDTH)} NOT PLANTED: the statement was not sent`)
    else {
      const others = broken.map(({ promise }) => promise).join('; ')
      console.log(`  ${' '.repeat(WIDTH)} MISSED${others === '' ? '' : `, though broken: ${others}`}. ${directory}`)
    }
  }
  console.log(`\n${names.length - missed} of ${names.length} caught.`)
  return missed === 0 ? 0 : 1
}
