import type { Llm } from '../llm.ts'
import type { Screen } from '../screen.ts'
import type { Catalogue } from './catalogue.ts'
import type { Crew } from './crew.ts'
import type { Database } from './database.ts'
import type { ToyQueue } from './queue.ts'

/** All that the stories need. */
export interface Stage {
  readonly database: Database
  readonly llm: Llm
  readonly catalogue: Catalogue
  readonly queue: ToyQueue
  readonly crew: Crew
  readonly screen: Screen
  /** The protection is left out, to show its use. */
  readonly isUnguarded: boolean
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}
