/** Counts what the workers of this process do, from their events. */
import type { JobInfo } from '../worker/events.ts'
import type { Worker } from '../worker/worker.ts'
import type { Labels, Sample } from './text-format.ts'

/** Kinds that get labels of their own. Further ones are counted together, under an empty queue and kind. */
const MOST_KINDS = 500

/** Seconds. From a handler that does nothing to one that runs for an hour. */
export const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600]

export const OUTCOMES = [
  'completed',
  'retrying',
  'dead_letter',
  'snoozed',
  'cancelled',
  'released',
  'refused',
  'unknown',
] as const
type CountedOutcome = (typeof OUTCOMES)[number]

export class Histogram {
  readonly #counts = new Float64Array(BUCKETS.length + 1)
  #sum = 0

  observe(seconds: number): void {
    let bucket = 0
    while (bucket < BUCKETS.length && seconds > BUCKETS[bucket]!) bucket++
    this.#counts[bucket]!++
    this.#sum += seconds
  }

  samples(labels: Labels): Sample[] {
    let count = 0
    const samples: Sample[] = BUCKETS.map((bound, index) => {
      count += this.#counts[index]!
      return { suffix: '_bucket', labels: { ...labels, le: String(bound) }, value: count }
    })
    count += this.#counts[BUCKETS.length]!
    samples.push({ suffix: '_bucket', labels: { ...labels, le: '+Inf' }, value: count })
    return [...samples, { suffix: '_sum', labels, value: this.#sum }, { suffix: '_count', labels, value: count }]
  }
}

/** The counts of one kind in one queue. */
export class KindCounts {
  readonly labels: Labels
  readonly outcomes: Record<CountedOutcome, number>
  readonly handler = new Histogram()
  readonly startDelay = new Histogram()

  constructor(queue: string, kind: string) {
    this.labels = { queue, kind }
    this.outcomes = Object.fromEntries(OUTCOMES.map((name) => [name, 0])) as Record<CountedOutcome, number>
  }
}

export class ProcessMetrics {
  readonly #byQueue = new Map<string, Map<string, KindCounts>>()
  readonly #rest = new KindCounts('', '')
  #kinds = 0
  reclaimed = 0
  workerDeaths = 0
  problems = 0

  watch(worker: Worker): void {
    // At 0 from the start: a rate or an increase does not see the value that a series begins with.
    for (const { queue, name } of worker.kinds) this.#of({ queue, kind: name })
    for (const name of OUTCOMES) {
      worker.on(name, (job: JobInfo & { readonly waitMs?: number; readonly durationMs?: number }) => {
        const counts = this.#of(job)
        counts.outcomes[name]++
        // Refused and unknown outcomes, and dead letters of the housekeeping, have no times.
        if (job.durationMs === undefined) return
        counts.handler.observe(job.durationMs / 1_000)
        counts.startDelay.observe(job.waitMs! / 1_000)
      })
    }
    worker.on('recovered', ({ jobs }) => {
      this.reclaimed += jobs
    })
    worker.on('worker_died', () => {
      this.workerDeaths++
    })
    worker.on('problem', () => {
      this.problems++
    })
  }

  get kinds(): KindCounts[] {
    const all = [...this.#byQueue.values()].flatMap((kinds) => [...kinds.values()])
    return this.#kinds < MOST_KINDS ? all : [...all, this.#rest]
  }

  #of({ queue, kind }: Pick<JobInfo, 'queue' | 'kind'>): KindCounts {
    return this.#byQueue.get(queue)?.get(kind) ?? this.#add(queue, kind)
  }

  #add(queue: string, kind: string): KindCounts {
    if (this.#kinds === MOST_KINDS) return this.#rest
    this.#kinds++
    const counts = new KindCounts(queue, kind)
    const kinds = this.#byQueue.get(queue) ?? new Map<string, KindCounts>()
    this.#byQueue.set(queue, kinds.set(kind, counts))
    return counts
  }
}
