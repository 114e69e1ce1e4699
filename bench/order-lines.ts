/** The lines of jobs that wait while others are claimed, and their names in the tables. */

import type { KeyOrder } from './inputs.ts'

/** In the order of their enqueue. Keys come in turns unless said otherwise. */
export type Line = readonly { readonly jobs: number; readonly keys: number; readonly keyOrder?: KeyOrder }[]

/** What all others are compared with. */
export const FEW = { jobs: 2_000, keys: 200 }
const KEYS = [200, 2_000, 8_000]

/** By name, which is the same for any number of jobs. */
export function claimLines(jobs: number): ReadonlyMap<string, Line> {
  return new Map<string, Line>([
    [FEW_WAIT, [FEW]],
    ...KEYS.map((keys, at): [string, Line] => [CLAIM_LINES[at]!, [{ jobs, keys }]]),
    [CLAIM_LINES.at(-1)!, [{ jobs, keys: 1 }, FEW]],
  ])
}

export const FEW_WAIT = 'few'
export const CLAIM_LINES = [
  ...KEYS.map((keys) => `many of ${keys.toLocaleString('en')} keys`),
  'many of 1 key in front',
]
