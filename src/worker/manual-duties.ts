/**
 * Housekeeping for processes that only claim by hand. Without it a fleet of those would never sweep: the jobs of a dead process,
 * and the ledger rows of every claim, would stay for ever. A claim starts a turn now and then and does not wait for it: some
 * seconds after the last one, and the first when a claim finds nothing, so that also a process that ends soon has one. Like any
 * worker's, a turn takes the duties that are due and not taken elsewhere (migrations/0008_duties.sql).
 */
import type { Kind } from '../core/kind.ts'
import { monotonicMs, withDeadline } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { Events } from './events.ts'
import { Housekeeper } from './housekeeper.ts'

/** Between two turns of one process: what a worker sweeps in. */
const EVERY_MS = 5_000
const LEASE_MS = 30_000

export class ManualDuties {
  readonly #events: Events
  readonly #housekeeper: Housekeeper
  readonly #kinds = new Map<string, Kind>()
  /** Of the last turn. */
  #turnAt: number | undefined
  readonly #since = monotonicMs()
  #turn: Promise<void> | undefined
  #suspectsWait = false

  constructor(lane: Lane, events: Events) {
    this.#events = events
    const kinds = () => [...this.#kinds.values()]
    this.#housekeeper = new Housekeeper({
      lane,
      events,
      leaseMs: LEASE_MS,
      sweepEveryMs: EVERY_MS,
      get kinds() {
        return kinds().map(({ name }) => name)
      },
      get queues() {
        return [...new Set(kinds().map(({ queue }) => queue))]
      },
      get keepFinishedMs() {
        return Math.max(...kinds().map(({ keepMs }) => keepMs || 0))
      },
      waitsAfterOutage: true,
      runQueues: [],
      isOnSuspects: () => this.#suspectsWait,
      onSuspects: () => {
        this.#suspectsWait = true
      },
      owned: () => undefined,
    })
  }

  /** Starts a turn, if one is due and none is under way. Never throws. */
  afterClaim(kinds: readonly Kind[], foundNothing: boolean): void {
    for (const kind of kinds) this.#kinds.set(kind.name, kind)
    const isDue = monotonicMs() - (this.#turnAt ?? this.#since) >= EVERY_MS
    if (this.#turn !== undefined || !(isDue || (foundNothing && this.#turnAt === undefined))) return
    this.#turnAt = monotonicMs()
    const { worksAgain, problem } = this.#events.about('housekeeping')
    this.#turn = this.#housekeeper
      .tick()
      .then(worksAgain, problem)
      .then(() => {
        this.#turn = undefined
      })
  }

  /** Whether suspects were found since the last call. */
  suspectsWait(): boolean {
    const wait = this.#suspectsWait
    this.#suspectsWait = false
    return wait
  }

  /** Ends the turn under way after its next statement, and waits for that. */
  async stop(withinMs: number): Promise<void> {
    const stopped = Promise.all([this.#housekeeper.stop(), this.#turn])
    await withDeadline(stopped, withinMs, () => new Error()).catch(() => {})
  }
}
