/**
 * Keeps the tables in order. Every worker asks which duties are due, and whoever moves a duty's row on has it for that
 * interval (migrations/0006_duties.sql). All of it is true of every kind, known here or not, and safe to do twice.
 */
import type { Lane } from '../db/lane.ts'
import { suspectsWait } from '../queue/claim.ts'
import { type Duty, takeDuties } from '../queue/duty.ts'
import { expire, makePartitions, pruneDeadLetters, pruneHistory, pruneKeys, sweep } from '../queue/housekeeping.ts'
import type { Events } from './events.ts'
import { Loop } from './loop.ts'

const DAY_MS = 86_400_000
/** Enough for one turn: the rest is done in the next. */
const ROUNDS = 20
const LOOK_FOR_SUSPECTS_EVERY_MS = 5_000
const DAYS_AHEAD_AT_MOST = 100

export interface HousekeeperOptions {
  readonly lane: Lane
  readonly events: Events
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  readonly sweepEveryMs: number
  readonly keepDeadLettersMs: number
  readonly keepAttemptsMs: number
  /** The longest time that any kind known here is kept. */
  readonly keepFinishedMs: number
  onSuspects(): void
}

export class Housekeeper {
  readonly #options: HousekeeperOptions
  readonly #loop: Loop
  readonly #everyMs: Record<Duty, number>
  #keysFrom: Parameters<typeof pruneKeys>[1]

  constructor(options: HousekeeperOptions) {
    this.#options = options
    this.#everyMs = { sweep: options.sweepEveryMs, expire: 10_000, prune: 600_000, partitions: 3_600_000 }
    this.#loop = new Loop(
      () => this.tick(),
      (error) => options.events.problem('housekeeping', error),
    )
  }

  start(): void {
    this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async tick(): Promise<number> {
    const { lane, kinds, queues, onSuspects } = this.#options
    const { taken, nextInMs } = await takeDuties(lane, this.#everyMs)
    for (const duty of taken) await this.#do(duty)
    if (await suspectsWait(lane, queues, kinds)) onSuspects()
    return Math.min(nextInMs, LOOK_FOR_SUSPECTS_EVERY_MS) * (1 + 0.1 * Math.random())
  }

  async #do(duty: Duty): Promise<void> {
    const { lane, keepDeadLettersMs, keepAttemptsMs, keepFinishedMs } = this.#options
    switch (duty) {
      case 'sweep':
        return this.#sweep()
      case 'expire':
        return repeat(async () => (await expire(lane)).length === 1_000)
      case 'prune':
        await repeat(async () => (await pruneDeadLetters(lane, keepDeadLettersMs)) === 1_000)
        await repeat(async () => (await pruneHistory(lane, keepAttemptsMs)) > 0)
        return repeat(async () => {
          this.#keysFrom = (await pruneKeys(lane, this.#keysFrom)).next
          return this.#keysFrom !== undefined
        })
      case 'partitions': {
        const days = Math.ceil(keepFinishedMs / DAY_MS) + 7
        await makePartitions(lane, Math.min(days, DAYS_AHEAD_AT_MOST))
      }
    }
  }

  async #sweep(): Promise<void> {
    const { lane, events } = this.#options
    let jobs = 0
    let deadLetters = 0
    await repeat(async () => {
      const swept = await sweep(lane)
      jobs += swept.jobs.length
      deadLetters += swept.jobs.filter(({ outcome }) => outcome === 'dead_letter').length
      return swept.claims > 0
    })
    if (jobs === 0) return
    events.tell('recovered', { jobs, deadLetters })
    events.log({ level: 'warn', message: `${jobs} jobs of dead workers returned, ${deadLetters} to the dead letters` })
  }
}

async function repeat(more: () => Promise<boolean>): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) if (!(await more())) return
}
