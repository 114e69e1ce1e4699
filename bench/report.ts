/** The whole result of a run: the JSON line, and the source of the tables and the documentation. */
import type { Ratio } from './bars.ts'
import type { Sizes } from './bench.ts'
import type { Description } from './process/protocol.ts'
import type { Figure } from './results.ts'

export interface Report {
  readonly machine: { readonly processor: string; readonly cores: number; readonly memoryGiB: number }
  readonly versions: { readonly postgres: string; readonly node: string }
  readonly quick: boolean
  readonly seconds: number
  readonly sizes: Sizes
  /** By contender: its version, and why its settings are its best. */
  readonly settings: Readonly<Record<string, Description>>
  readonly figures: readonly Figure[]
  readonly ratios: readonly Ratio[]
}
