/** The results of a run. Everything here is in the JSON line, so names carry their units. */
import type { ContenderName } from './contenders/names.ts'
import { median } from './statistics.ts'

/** `bare` is a transaction without any queue; `× 8` are eight worker processes; after a comma: what was there. */
export type Subject = ContenderName | 'bare' | `${ContenderName} × ${number}` | `${ContenderName}, ${string}`

export type Measure =
  | 'jobsPerSecond'
  | 'nodeMicrosPerJob'
  | 'databaseMicrosPerJob'
  | 'workerDatabaseMicrosPerJob'
  | 'workerMicrosPerJob'
  | 'producerDatabaseMicrosPerJob'
  | 'totalMicrosPerJob'
  | 'statementsPerJob'
  | 'commitsPerJob'
  | 'perSecondAtP50'
  | 'p50Ms'
  | 'p99Ms'
  | 'claimMicros'
  | 'claims'
  | 'costRatio'
  | 'backlogSeconds'
  | 'statementsPerSecond'
  | 'takeoverSeconds'
  | 'movedPercent'
  | 'rssMiB'
  | 'heapMiB'

export interface Figure {
  readonly scenario: string
  readonly contender: Subject
  readonly measure: Measure
  /** Jobs that it was measured over, in each round. */
  readonly jobs: number
  readonly median: number
  readonly min: number
  readonly max: number
  /** In the order of the rounds. */
  readonly rounds: readonly number[]
}

export class Results {
  readonly figures: Figure[] = []

  /** Does nothing for a measure that some round lacks. */
  add(scenario: string, contender: Subject, measure: Measure, jobs: number, values: readonly (number | null)[]): void {
    const rounds = values.filter((value) => value !== null)
    if (rounds.length === 0 || rounds.length < values.length) return
    const [min, max] = [Math.min(...rounds), Math.max(...rounds)]
    this.figures.push({ scenario, contender, measure, jobs, median: median(rounds), min, max, rounds })
  }

  find(scenario: string, contender: Subject, measure: Measure): Figure | undefined {
    return this.figures.find((figure) => {
      return figure.scenario === scenario && figure.contender === contender && figure.measure === measure
    })
  }
}
