/** Each planted bug in a short run: does the checker detect it? */
import { rmSync } from 'node:fs'
import type { Finding } from './finding.ts'

const WIDTH = 24

export interface PlantedRun {
  readonly findings: readonly Finding[]
  /** Whether the bug was in place. */
  readonly isPlanted: boolean
  /** Of the witness files. */
  readonly directory: string
}

export interface TriedPlant {
  readonly what: string
  /** The rule that must detect it. */
  readonly breaks: RegExp
}

/** Returns 0 if all were detected, each by its rule. */
export async function tryPlants(
  plants: readonly (readonly [name: string, plant: TriedPlant])[],
  run: (name: string) => Promise<PlantedRun>,
): Promise<number> {
  let missed = 0
  for (const [name, { what, breaks }] of plants) {
    const { findings, isPlanted, directory } = await run(name)
    const broken = findings.filter((each) => each.broken.length > 0)
    const by = broken.find(({ promise }) => breaks.test(promise))
    if (by === undefined) missed++
    else rmSync(directory, { recursive: true })
    console.log(`${by === undefined ? '✗' : '✓'} ${name.padEnd(WIDTH)} ${what}`)
    if (by !== undefined) console.log(`  ${' '.repeat(WIDTH)} caught by "${by.promise}", ${by.broken.length} times`)
    else if (!isPlanted) console.log(`  ${' '.repeat(WIDTH)} NOT PLANTED: what it changes was never used`)
    else {
      const others = broken.map(({ promise }) => promise).join('; ')
      console.log(`  ${' '.repeat(WIDTH)} MISSED${others === '' ? '' : `, though broken: ${others}`}. ${directory}`)
    }
  }
  console.log(`\n${plants.length - missed} of ${plants.length} caught.`)
  return missed === 0 ? 0 : 1
}
