/** The results of a run. Everything here is in the JSON line, so names carry their units. */

/** Medians over the rounds, per job. Null where the system has no figure. */
export interface Figure {
  readonly scenario: string
  readonly design: string
  readonly phase: 'enqueue' | 'drain' | 'all'
  readonly batch: number
  readonly payloadBytes: number
  readonly jobs: number
  readonly rounds: number
  readonly jobsPerSecond: number
  /** The sessions that did the work. */
  readonly databaseMicros: number | null
  readonly nodeMicros: number
  /** The server's other processes. */
  readonly otherMicros: number | null
  readonly walBytes: number
  /** Of these, pages written whole because of the checkpoint before the phase. */
  readonly walImageBytes: number | null
  readonly hotShare: number | null
  /** Completions that returned `busy`, of all jobs of a round. */
  readonly retries: number
}

/** Processor time per job (Node and the workers' sessions) under a burden, divided by that without. */
export interface Ratio {
  readonly scenario: string
  readonly design: string
  readonly batch: number
  readonly jobs: number
  readonly calmMicros: number | null
  readonly burdenedMicros: number | null
  /** The median of the pairs. */
  readonly ratio: number | null
  readonly pairs: readonly (number | null)[]
  /** The slowest first claim of a worker that has no mark yet, under the burden. */
  readonly firstClaimMs: number | null
}

export interface Bar {
  readonly name: string
  readonly value: number | null
  readonly bar: string
  readonly holds: boolean | null
}

export class Results {
  readonly figures: Figure[] = []
  readonly ratios: Ratio[] = []
  readonly bars: Bar[] = []

  atLeast(name: string, value: number | null, bar: number): void {
    this.bars.push({ name, value, bar: `>= ${bar}`, holds: value === null ? null : value >= bar })
  }

  atMost(name: string, value: number | null, bar: number): void {
    this.bars.push({ name, value, bar: `<= ${bar}`, holds: value === null ? null : value <= bar })
  }
}
