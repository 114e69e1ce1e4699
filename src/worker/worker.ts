/**
 * A worker: one process's share of the work.
 *
 *   listener ─► fetcher ──claims──► slots ──► runner: execute ──outcome──► outcomes ──known──► slots, leases
 *                  └── turns: a claim along with completions ──┘         leases: renew, lose, cancel
 *   housekeeper: sweep, expire, prune, partitions; chores: the user's own
 *
 * Four connections: claims and housekeeping, outcomes, leases, and the one that listens; a fifth if there are chores. Each
 * part is a loop that reports what goes wrong and tries again, so nothing the database does ends the process.
 */
import { randomUUID } from 'node:crypto'
import type { Kind } from '../core/kind.ts'
import { Alarm, monotonicMs } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import { Lane } from '../db/lane.ts'
import { Session } from '../db/session.ts'
import type { Worker as Identity } from '../jobs/job.ts'
import { SharedSchedule } from '../runtime/chore-schedules.ts'
import { Chores } from '../runtime/chores.ts'
import { Lifecycle } from '../runtime/lifecycle.ts'
import { Loop } from '../runtime/loop.ts'
import { Service } from '../runtime/service.ts'
import { awaitSchema } from './await-schema.ts'
import { compareConfiguration } from './compare-configuration.ts'
import { announceDeaths } from './dead-workers.ts'
import { Events, type WorkerEvents } from './events.ts'
import { Fetcher } from './fetcher.ts'
import type { Until } from './fetcher-options.ts'
import { type Handler, handlersByKind } from './handler.ts'
import { type WorkerHealth, workerHealth } from './health.ts'
import { Housekeeper } from './housekeeper.ts'
import { listenFor } from './listen-for.ts'
import type { Listener } from './listener.ts'
import { type WorkerOptions, type WorkerSettings, workerSettings } from './options.ts'
import type { Tally } from './outcome-events.ts'
import { Registration } from './registration.ts'
import type { Ownership } from './ring-member.ts'
import { RingPart } from './ring-part.ts'
import { RunSignals } from './run-signals.ts'
import { Runner } from './runner.ts'
import { Slots } from './slots.ts'
import { Turns } from './turns.ts'

const STATEMENT_DEADLINE_MS = 10_000
/** When no handler runs any more, what is left to record has this long. Then the database does not answer, and it exits. */
const LAST_WORDS_MS = 10_000
/** The registry's note that it has stopped is worth less: nothing waits for it. */
const GOODBYE_MS = 2_000
const MODES = { stopped: 'worker', empty: 'drain', once: 'once' } as const

export class Worker extends Service<WorkerEvents> {
  /** Fresh each time; its label is for people. */
  readonly identity: Identity
  readonly #connection: Connection
  readonly #settings: WorkerSettings
  readonly #handlers: ReadonlyMap<string, Handler>
  readonly #until: Until
  protected readonly events: Events
  readonly #sessions: Session[] = []
  /** Claims, housekeeping, and this worker's row in the registry. */
  readonly #claims: Lane
  readonly #turns: Turns
  readonly #registration: Registration
  readonly #registering: Loop
  readonly #ring: RingPart
  readonly #signals: RunSignals
  readonly #slots: Slots
  readonly #runner: Runner
  readonly #fetcher: Fetcher
  readonly #housekeeper: Housekeeper
  readonly #chores: Chores
  readonly #listener: Listener | undefined
  protected readonly lifecycle: Lifecycle
  #isUp = false
  /** What cannot be recorded any more is not. */
  readonly #giveUp = new AbortController()

  constructor(connection: Connection, handlers: readonly Handler[], options?: WorkerOptions, until: Until = 'stopped') {
    super()
    this.#connection = connection
    this.#handlers = handlersByKind(handlers)
    for (const { kind } of this.#handlers.values()) connection.kinds.see(kind)
    this.#settings = workerSettings(options, until === 'stopped')
    this.#until = until
    this.events = new Events(connection.log, this.#settings.label)
    this.#giveUp.signal.addEventListener('abort', () => {
      for (const session of this.#sessions) session.abandon()
    })
    const { concurrency, prefetch, leaseMs, label } = this.#settings
    this.identity = { id: randomUUID(), label }
    this.#slots = new Slots(this.#handlers, concurrency, until === 'once' ? 0 : prefetch)
    this.#claims = this.#lane(STATEMENT_DEADLINE_MS)
    this.#turns = new Turns(this.#claims, this.#lane(STATEMENT_DEADLINE_MS))
    this.#runner = new Runner({
      worker: this.identity,
      handlers: this.#handlers,
      slots: this.#slots,
      events: this.events,
      leaseMs,
      outcomeLane: this.#turns.completions,
      leaseLane: this.#lane(Math.min(STATEMENT_DEADLINE_MS, leaseMs / 3)),
      connection,
      turns: this.#turns,
    })
    this.#registration = new Registration({
      lane: this.#claims,
      worker: this.identity,
      mode: MODES[until],
      load: this.#runner.load,
      onReturned: (message) => this.events.log({ level: 'warn', message }),
    })
    this.#registering = new Loop(() => this.#register(), this.events.about('registering'))
    this.#ring = new RingPart({
      lane: this.#claims,
      worker: this.identity,
      queues: this.#names().queues,
      ...this.#settings,
      stays: until === 'stopped',
      claimsAnswered: () => this.#fetcher.claimsAnswered(),
      onChange: () => this.#fetcher.linesChanged(),
      events: this.events,
    })
    this.#signals = new RunSignals(this.#claims, [...this.#handlers.values()], this.events.about('waking runs'))
    this.#fetcher = this.#makeFetcher(this.#claims)
    this.#housekeeper = this.#makeHousekeeper(this.#claims)
    const schedule = new SharedSchedule(this.#lane(STATEMENT_DEADLINE_MS))
    this.#chores = new Chores(this.#settings.chores, schedule, connection.pool, this.events)
    if (until === 'stopped') this.#listener = this.#makeListener()
    this.lifecycle = new Lifecycle({
      ...this.#settings,
      start: () => this.#start(),
      close: (ms) => this.#close(ms),
      untilIdle: (ms, hurry) => this.#runner.untilNoneRuns(ms, hurry),
      abortHandlers: () => this.#runner.abortAll(),
      finish: (closed) => this.#finish(closed),
      end: () => this.#end(),
    })
  }

  /** What was recorded so far. */
  get tally(): Readonly<Tally> {
    return this.#runner.tally
  }

  /**
   * Whether this worker, and no other, claims the jobs of a key, and for how long at least. Undefined: another worker does, or none,
   * or the queue is not on the ring.
   */
  owns(queue: string, key: string): Ownership | undefined {
    return this.#ring.owns(queue, key)
  }

  /** What this process knows of the worker, without asking the database. */
  get health(): WorkerHealth {
    return workerHealth(this.identity.label, this.lifecycle.isStopping, this.#slots, this.#registration.beats)
  }

  /** @internal As if its process had died: it records nothing more. Its leases expire. */
  abandon(): Promise<void> {
    this.#giveUp.abort()
    return this.stop({ grace: 0 })
  }

  async #start(): Promise<void> {
    this.#connection.workers.add(this)
    const { stopAsked } = this.lifecycle
    // A database that cannot be reached yet is waited for, unless a caller waits for us.
    await awaitSchema(this.#connection, {
      deadlineMs: STATEMENT_DEADLINE_MS,
      waits: this.#until === 'stopped',
      stopAsked,
      events: this.events.about('connecting'),
    })
    if (stopAsked.aborted) return
    this.#runner.start()
    await compareConfiguration(this.#claims, this.kinds, this.#connection.retention, (entry) => this.events.log(entry))
    await this.#housekeeper.prepare().catch((error) => this.events.problem('making partitions', error))
    if (this.#until === 'stopped') this.#housekeeper.start()
    else await this.#housekeeper.tick().catch((error) => this.events.problem('housekeeping', error))
    if (this.#until === 'stopped') this.#chores.start()
    this.#registering.start()
    await this.#ring.start()
    this.#signals.start()
    this.#fetcher.start()
    this.#listener?.start()
    if (this.#until === 'stopped' && this.#listener === undefined) this.#logWakeUp('polls for new work')
  }

  /** Logs how it learns of new work; the first time, that it is up and what it handles. */
  #logWakeUp(how: string): void {
    const kinds = this.#names().kinds.map((name) => JSON.stringify(name))
    const named = kinds.length <= 5 ? kinds.join(', ') : `${kinds.slice(0, 5).join(', ')} and ${kinds.length - 5} more`
    const up = this.#isUp ? '' : `is up: handles ${named}, ${this.#settings.concurrency} at a time; `
    this.#isUp = true
    this.events.log({ level: 'info', message: `worker ${this.identity.label} ${up}${how}` })
  }

  /** Returns when to register again. */
  async #register(): Promise<number> {
    const dueInMs = await this.#registration.renew(this.kinds)
    if (this.#until === 'stopped' && this.#registration.takeSilence()) {
      await announceDeaths(this.#claims, this.identity, this.events)
    }
    return dueInMs
  }

  #close(graceMs: number): Promise<unknown> {
    const who = `worker ${this.identity.label} is `
    this.events.stopping(this.#slots.running, graceMs, this.#settings.signals.length > 0, who)
    // Sent first, and not waited for: if the database does not answer, the registry shows when the worker was last seen.
    if (this.#until === 'stopped') void this.#registration.drains().catch(() => {})
    this.#runner.close()
    // Others take over its buckets at once, while handlers go on here.
    const left = this.#fetcher.stop().then(() => this.#ring.stop())
    const parts = [this.#housekeeper, this.#chores, this.#listener, this.#signals]
    return Promise.all([left, ...parts.map((part) => part?.stop())])
  }

  async #finish(closed: Promise<unknown>): Promise<void> {
    const lastWords = new Alarm(() => this.#giveUp.abort())
    lastWords.set(monotonicMs() + LAST_WORDS_MS)
    this.#runner.releaseAll()
    await closed
    await this.#runner.stop(this.#giveUp.signal)
    // If this fails, the registry shows when the worker was last seen.
    lastWords.setEarlier(monotonicMs() + GOODBYE_MS)
    await this.#registering.stop() // It beats for as long as handlers run.
    await this.#registration.stopped().catch(() => {})
    lastWords.set(Number.POSITIVE_INFINITY)
  }

  async #end(): Promise<void> {
    this.#connection.workers.delete(this)
    await Promise.all(this.#sessions.map((session) => session.close()))
    this.events.emit('stopped')
  }

  #makeFetcher(lane: Lane): Fetcher {
    const { concurrency, leaseMs, pollMs } = this.#settings
    return new Fetcher({
      lane,
      turns: this.#turns,
      worker: this.identity,
      leaseMs,
      pollMs,
      concurrency,
      ...this.#names(),
      slots: this.#slots,
      runner: this.#runner,
      until: this.#until,
      ring: this.#ring,
      register: () => this.#register(),
      onExhausted: () => void this.stop(),
      events: this.events.about('claiming'),
    })
  }

  #makeHousekeeper(lane: Lane): Housekeeper {
    const { leaseMs, sweepMs } = this.#settings
    return new Housekeeper({
      lane,
      events: this.events,
      ...this.#names(),
      leaseMs,
      sweepEveryMs: sweepMs,
      keepFinishedMs: Math.max(...this.kinds.map(({ keepMs }) => keepMs || 0)),
      waitsAfterOutage: this.#until === 'stopped',
      isOnSuspects: () => this.#fetcher.isForSuspects,
      onSuspects: () => this.#fetcher.suspectsWait(),
      owned: () => this.#ring.owned,
      runQueues: this.#signals.queues,
    })
  }

  #makeListener(): Listener | undefined {
    return listenFor(this.#connection, {
      deadlineMs: STATEMENT_DEADLINE_MS,
      over: this.#claims,
      label: this.identity.label,
      onWakeUp: (how) => this.#logWakeUp(how),
      queues: this.#names().queues,
      fetcher: this.#fetcher,
      runner: this.#runner,
      onSignal: () => this.#signals.announced(),
      onRing: (message) => this.#ring.heard(message),
      events: this.events,
      isStopping: () => this.lifecycle.isStopping,
    })
  }

  /** @internal Those that it handles. */
  get kinds(): Kind[] {
    return [...this.#handlers.values()].map(({ kind }) => kind)
  }

  #names(): { kinds: string[]; queues: string[] } {
    return { kinds: this.kinds.map(({ name }) => name), queues: [...new Set(this.kinds.map(({ queue }) => queue))] }
  }

  #lane(deadlineMs: number): Lane {
    const session = new Session({
      connection: this.#connection.clientFor(this.identity.label),
      deadlineMs,
      onLost: (error) => this.events.problem('a connection was lost', error),
    })
    this.#sessions.push(session)
    return new Lane(session, this.#connection)
  }
}
