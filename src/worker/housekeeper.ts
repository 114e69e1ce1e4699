/**
 * Keeps the tables in order. Every worker asks which duties are due, and the one that moves a duty's row on has it for that
 * interval (migrations/0008_duties.sql). All of it is true of every kind, known here or not, and safe to do twice.
 */
import type { RetentionMs } from '../core/retention.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import { isOutage } from '../db/outage.ts'
import { pruneEffects } from '../effects/ledger.ts'
import { PRUNE_EVERY_MS, pruneDue } from '../inbox/pruning.ts'
import { countSuspects, type OwnedBuckets } from '../jobs/claim.ts'
import { readRetention } from '../jobs/configuration.ts'
import {
  dropPartitions,
  expire,
  lookBeforeSweep,
  makePartitions,
  pruneAttempts,
  pruneDeadLetters,
  pruneFinished,
  pruneKeys,
  type Swept,
  sweep,
} from '../jobs/housekeeping.ts'
import type { JobId } from '../jobs/job.ts'
import { pruneActions, pruneFleetEvents, pruneWorkers, stopSilentClaimers } from '../jobs/registry.ts'
import { pruneRuns, wakeSignalled } from '../jobs/signals.ts'
import { type Duty, takeDuties, takeSooner } from '../runtime/duty.ts'
import { Loop } from '../runtime/loop.ts'
import { Burials } from './burials.ts'
import type { Events } from './events.ts'
import { SUSPECTS_AT_ONCE } from './fetcher.ts'
import { QueuesWithoutSeats } from './queues-without-seats.ts'
import { UnhandledVersions } from './unhandled-versions.ts'
import { WaitingKeys } from './waiting-keys.ts'

const DAY_MS = 86_400_000
/** Workers hear of signals at once. This is for those that do not, and for a signal that came while its run was parking. */
const SIGNALS_EVERY_MS = 1_000
/** Enough for one turn: the rest is done in the next. */
const ROUNDS = 20
/** Every effect leaves a row: up to two million are dealt with in a turn. */
const MANY_ROUNDS = 200
/** As many keys, fewer at a time: each is looked up in every day of the archive. */
const KEY_ROUNDS = 2_000
const MANY = 10_000
/** Of the looks at waiting keys, one in so many is one for queues without seats, too. */
const SEATS_EVERY = 6
/** Between two questions what is due. */
const SOONEST_MS = 50
/** Days made ahead, so that a week without a worker leaves some; migrations make as many for kinds kept a week. */
const DAYS_TO_SPARE = 7
const MIGRATED_AHEAD_MS = 7 * DAY_MS

export interface HousekeeperOptions {
  readonly lane: Lane
  readonly events: Events
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  readonly leaseMs: number
  readonly sweepEveryMs: number
  /** The longest time that any kind known here is kept. */
  readonly keepFinishedMs: number
  /** Whether a sweep gives workers time to come back after the database was away. */
  readonly waitsAfterOutage: boolean
  /** Queues of workflows, whose runs may wait for signals. */
  readonly runQueues: readonly string[]
  /** This worker is claiming suspects already. */
  isOnSuspects(): boolean
  onSuspects(): void
  /** Whose suspects this worker may claim. Undefined: all. */
  owned(): OwnedBuckets | undefined
}

export class Housekeeper {
  readonly #options: HousekeeperOptions
  readonly #loop: Loop
  readonly #burials: Burials
  readonly #waitingKeys: WaitingKeys
  readonly #withoutSeats: QueuesWithoutSeats
  readonly #versions: UnhandledVersions
  #everyMs: Partial<Record<Duty, number>>
  #effectsFrom: Parameters<typeof pruneEffects>[2]
  #runsFrom: string | undefined
  #stopping = false
  #ordersLooked = 0
  /** In this turn. */
  #hasReclaimed = false
  /** When a worker on the ring looks for its own suspects. */
  #looksAt = Number.POSITIVE_INFINITY

  constructor(options: HousekeeperOptions) {
    this.#options = options
    this.#everyMs = {
      sweep: options.sweepEveryMs,
      suspects: Math.min(options.leaseMs / 3, 10_000),
      expire: 10_000,
      prune: 600_000,
      partitions: 3_600_000,
      order: 10_000,
      inbox: PRUNE_EVERY_MS,
      ...(options.runQueues.length > 0 ? { signals: SIGNALS_EVERY_MS, versions: 60_000 } : {}),
    }
    this.#waitingKeys = new WaitingKeys(options.lane, options.queues, options.events)
    this.#withoutSeats = new QueuesWithoutSeats(options.lane, options.events)
    this.#versions = new UnhandledVersions(options.lane, options.runQueues, options.events)
    this.#burials = new Burials(options.lane, options.events)
    this.#loop = new Loop(() => this.tick(), options.events.about('housekeeping'))
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    await this.#announceMissing()
  }

  /** The days in which finished jobs of these kinds are forgotten, before there are any. */
  async prepare(): Promise<void> {
    if (this.#options.keepFinishedMs > MIGRATED_AHEAD_MS) await this.#makePartitions()
  }

  async tick(): Promise<number> {
    const { lane, isOnSuspects } = this.#options
    await this.#announceMissing()
    const { suspects, ...others } = this.#everyMs
    // One that claims suspects already leaves the duty to the next.
    const everyMs = (isOnSuspects() ? others : this.#everyMs) as Record<Duty, number>
    const { taken, nextInMs } = await takeDuties(lane, everyMs)
    for (const duty of taken) {
      const { worksAgain, problem } = this.#options.events.about(`housekeeping (${duty})`)
      await this.#do(duty).then(worksAgain, problem)
    }
    // The worker that has reclaimed jobs looks at once: they are suspects.
    if (!this.#stopping && (taken.includes('suspects') || this.#hasReclaimed || this.#looksItself()))
      await this.#recruit()
    this.#hasReclaimed = false
    return Math.max(Math.min(nextInMs, this.#looksAt - monotonicMs()), SOONEST_MS)
  }

  async #do(duty: Duty): Promise<void> {
    const { lane } = this.#options
    switch (duty) {
      case 'sweep':
        return this.#sweep()
      case 'expire':
        return this.#expire()
      case 'prune':
        return this.#prune(await readRetention(lane))
      case 'partitions':
        await this.#makePartitions()
        return this.#dropPartitions(await readRetention(lane))
      case 'order':
        if (this.#ordersLooked++ % SEATS_EVERY === 0) await this.#withoutSeats.look()
        return this.#waitingKeys.look()
      case 'inbox':
        return pruneDue(lane, () => this.#stopping)
      case 'signals':
        return wakeSignalled(lane)
      case 'versions':
        return this.#versions.look()
      case 'suspects': // Looked for by the tick itself.
    }
  }

  /** On the ring only the owner of a suspect may claim it, and the duty is mostly another worker's: so each looks for its own. */
  #looksItself(): boolean {
    const { owned, isOnSuspects } = this.#options
    if (owned() === undefined) this.#looksAt = Number.POSITIVE_INFINITY
    else if (this.#looksAt === Number.POSITIVE_INFINITY) this.#looksAt = 0
    if (monotonicMs() < this.#looksAt) return false
    this.#looksAt = monotonicMs() + this.#everyMs.suspects!
    return !isOnSuspects()
  }

  /** One worker takes what it can at once. The more suspects wait, the sooner the next worker finds the duty due. */
  async #recruit(): Promise<void> {
    const { lane, queues, kinds, onSuspects, owned } = this.#options
    const waiting = await countSuspects(lane, queues, kinds, 1_000, owned())
    if (waiting === 0) return
    onSuspects()
    const workers = Math.ceil(waiting / SUSPECTS_AT_ONCE)
    if (workers > 1) await takeSooner(lane, 'suspects', this.#everyMs.suspects! / workers)
  }

  /** Each step on its own: a table that refuses its own pruning does not keep the others from being pruned. */
  async #prune(keep: RetentionMs): Promise<void> {
    const { lane, events } = this.#options
    const repeat = (more: () => Promise<boolean>, rounds = ROUNDS) => this.#repeat(more, rounds)
    const steps = {
      'dead letters': () => repeat(async () => (await pruneDeadLetters(lane, keep.deadLetters)) === 1_000),
      'old partitions': () => this.#dropPartitions(keep),
      'finished jobs': () => repeat(async () => (await pruneFinished(lane, MANY)) >= MANY),
      attempts: () => repeat(async () => (await pruneAttempts(lane, keep.attempts, MANY)) >= MANY),
      effects: () =>
        repeat(async () => {
          this.#effectsFrom = (await pruneEffects(lane, keep.effects, this.#effectsFrom, MANY)).next
          return this.#effectsFrom !== undefined
        }, MANY_ROUNDS),
      runs: () =>
        repeat(async () => {
          this.#runsFrom = (await pruneRuns(lane, this.#runsFrom, MANY)) ?? undefined
          return this.#runsFrom !== undefined
        }, MANY_ROUNDS),
      workers: () =>
        repeat(async () => {
          await stopSilentClaimers(lane)
          return (await pruneWorkers(lane, keep.workers)) === 1_000
        }),
      'operator actions': () => repeat(async () => (await pruneActions(lane, keep.workers)) === 1_000),
      'fleet events': () => repeat(async () => (await pruneFleetEvents(lane, keep.workers)) === 1_000),
      keys: () => repeat(async () => (await pruneKeys(lane)).more, KEY_ROUNDS),
    }
    for (const [what, step] of Object.entries(steps)) {
      const { worksAgain, problem } = events.about(`housekeeping (prune ${what})`)
      await step().then(worksAgain, (error) => {
        // The other steps would wait for the same server, and the sweep would wait for them.
        if (isOutage(error)) throw error
        problem(error)
      })
    }
  }

  async #makePartitions(): Promise<void> {
    const { lane, keepFinishedMs } = this.#options
    const made = await makePartitions(lane, Math.ceil(keepFinishedMs / DAY_MS) + DAYS_TO_SPARE)
    if (made === undefined) this.#leavePartitionsToOwner()
  }

  #dropPartitions(keep: RetentionMs): Promise<void> {
    const { lane } = this.#options
    return this.#repeat(async () => {
      const dropped = await dropPartitions(lane, keep.attempts)
      if (dropped === undefined) this.#leavePartitionsToOwner()
      return dropped !== undefined && dropped > 0
    })
  }

  /** Logged once. The duty is no longer taken here, so that a worker that runs as the owner gets it. */
  #leavePartitionsToOwner(): void {
    const { lane, events } = this.#options
    if (this.#everyMs.partitions === undefined) return
    const { partitions, ...others } = this.#everyMs
    this.#everyMs = others
    events.log({
      level: 'warn',
      message:
        `partitions of schema "${lane.schema}" are left to its owner, since the role of this worker does not own the tables; ` +
        'run leasehold.maintain() as the owner every day. Until then finished jobs past their retention stay, and new ' +
        'ones go to the default partitions',
    })
  }

  #announceMissing(): Promise<void> {
    const { worksAgain, problem } = this.#options.events.about('announcing dead letters')
    return this.#burials.announceMissing().then(worksAgain, problem)
  }

  async #repeat(more: () => Promise<boolean>, rounds = ROUNDS): Promise<void> {
    for (let round = 0; round < rounds && !this.#stopping; round++) if (!(await more())) return
  }

  #expire(): Promise<void> {
    const { lane } = this.#options
    return this.#repeat(async () => {
      const expired = await this.#burials.announce(
        () => expire(lane),
        (ids) => ids,
      )
      return expired.length === 1_000
    })
  }

  async #sweep(): Promise<void> {
    const { lane, events, leaseMs, sweepEveryMs, waitsAfterOutage } = this.#options
    if (waitsAfterOutage) {
      const gapMs = Math.max(leaseMs / 3, 2 * sweepEveryMs)
      const { wasAway, anyExpired } = await lookBeforeSweep(lane, gapMs, leaseMs)
      if (!anyExpired) return
      if (wasAway) {
        const message = 'no sweep for a while, or the server has restarted: expired leases are kept'
        events.log({ level: 'info', message: `${message} for ${leaseMs} ms` })
      }
    }
    let jobs = 0
    let deadLetters = 0
    await this.#repeat(async () => {
      const swept = await this.#burials.announce(() => sweep(lane, undefined, waitsAfterOutage), lettersOf)
      jobs += swept.jobs.length
      deadLetters += lettersOf(swept).length
      return swept.claims > 0
    })
    this.#hasReclaimed = jobs > 0
    if (jobs === 0) return
    events.emit('recovered', { jobs, deadLetters })
    events.log({
      level: 'warn',
      message: `reclaimed ${jobs} jobs from expired leases (${deadLetters} dead-lettered)`,
    })
  }
}

function lettersOf({ jobs }: Swept): JobId[] {
  return jobs.filter(({ outcome }) => outcome === 'dead_letter').map(({ jobId }) => jobId)
}
