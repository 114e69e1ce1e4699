/**
 * This worker's seat on the ring, and the lines that it may claim from.
 *
 * Who holds what: a seat is a lease in the database, renewed by a beat. The worker counts its time from when the beat was sent, on a
 * monotonic clock, and stops claiming from its lines before the lease can have expired. So a worker that stood still claims nothing
 * of what others own by now, but for a claim that had been sent; and that one passes over what others hold.
 *
 * A change of seats begins an epoch (migrations/0014_ring.sql). The worker drops at once what it does not own in it, waits until
 * the claims under way are answered, and acknowledges it. It adds what it gained when no other seat can claim it any more: each has
 * acknowledged an epoch in which it does not own that. Buckets that stay where they are never pause. The seat of a worker that died
 * acknowledges nothing; it expires, which begins the next epoch.
 *
 * A lost reply: the beat is sent again, and changes nothing the second time. A failover that lost epochs may begin another of the same
 * number. Its salt differs, so it counts as new. Until the next beat two workers may ask one line then, which costs a claim in
 * vain and no more.
 */
import { bucketOf } from '../core/bucket.ts'
import { monotonicMs } from '../core/timer.ts'
import type { Lane } from '../db/lane.ts'
import type { OwnedBuckets } from '../jobs/claim.ts'
import type { Worker } from '../jobs/job.ts'
import type { Line } from '../jobs/lines.ts'
import { beat, type Epoch, type EpochId, type RingState, type Strategies, seatsOf } from '../jobs/ring.ts'
import { BucketSet } from '../ring/bits.ts'
import { SeatTakenError } from '../ring/errors.ts'
import { ringMap } from '../ring/map.ts'

const LONGEST_LEASE_MS = 10_000
const BEATS_PER_LEASE = 3
/** A claim that is sent by then has been carried out before the lease expires, unless the database stalls. */
const USABLE_PART = 0.8
/** How often to look for what a worker on no ring would otherwise learn late, and for acknowledgements that were not announced. */
const IDLE_BEAT_MS = 15_000
const WAITING_BEAT_MS = 250
/** Buckets that wait for their former owner for this part of a lease are worth a line in the log. */
const LONG_WAIT_PART = 0.5

export interface RingMemberOptions {
  readonly lane: Lane
  readonly worker: Worker
  readonly queues: readonly string[]
  readonly weight: number
  /** The seat that it wants. Undefined: any. */
  readonly seat: number | undefined
  /** Of the worker's claims. */
  readonly leaseMs: number
  /** Resolves when every claim that was sent before has been answered. */
  claimsAnswered(): Promise<void>
  /** The lines are others now. */
  onChange(): void
  readonly events: RingEvents
}

export interface RingEvents {
  gained(change: RingChange): void
  lost(change: RingChange): void
  /** What it gained has waited for its former owner for long. */
  waiting(change: RingChange): void
}

/** Buckets of a queue that a worker may claim from now on, or may not any more. */
export interface RingChange {
  readonly queue: string
  readonly buckets: readonly number[]
  readonly epoch: number
}

/** This worker, and no other, claims the jobs of a key. */
export interface Ownership {
  readonly bucket: number
  readonly seat: number
  /** For so long, should the worker not reach the database any more. Each beat prolongs it. */
  readonly forMs: number
}

const NONE = new BucketSet()

export class RingMember {
  readonly #options: RingMemberOptions
  readonly #queues: readonly string[]
  readonly #seatLeaseMs: number
  #has: EpochId | undefined
  #seat: number | undefined
  /** By queue that is or was on the ring: what it, and no other, may claim. */
  #allowed: ReadonlyMap<string, BucketSet> = new Map()
  /** Queues that are off: any worker may claim from all of their lines. */
  #off: ReadonlySet<string> = new Set()
  #lines: readonly Line[] | undefined
  #usableUntil = Number.POSITIVE_INFINITY
  #isWaiting = false
  /** Since when it waits for former owners. Undefined: it does not, or that was reported. */
  #waitsSince: number | undefined

  constructor(options: RingMemberOptions) {
    this.#options = options
    this.#queues = [...new Set(options.queues)].sort()
    this.#seatLeaseMs = Math.min(options.leaseMs, LONGEST_LEASE_MS)
  }

  /** Where to claim from, or undefined if no queue is on the ring. Ask again before each claim: time may have passed. */
  get lines(): readonly Line[] | undefined {
    if (this.#allowed.size === 0) return undefined
    this.#dropIfLate()
    this.#lines ??= this.#queues.flatMap((queue) => {
      const buckets = [...(this.#off.has(queue) ? BucketSet.all() : this.#nowIn(queue))]
      return [{ queue, line: 0 }, ...buckets.map((bucket) => ({ queue, line: bucket + 1 }))]
    })
    return this.#lines
  }

  /** Whose suspects to claim. */
  get owned(): OwnedBuckets | undefined {
    if (this.#allowed.size === 0) return undefined
    this.#dropIfLate()
    return new Map(
      [...this.#allowed].map(([queue, buckets]) => [queue, (this.#off.has(queue) ? BucketSet.all() : buckets).bytes]),
    )
  }

  owns(queue: string, key: string): Ownership | undefined {
    const bucket = bucketOf(key)
    const forMs = this.#usableUntil - monotonicMs()
    if (this.#seat === undefined || forMs <= 0 || !this.#allowed.get(queue)?.has(bucket)) return undefined
    return { bucket, seat: this.#seat, forMs }
  }

  /** Another seat has acknowledged an epoch, or one has begun. Returns whether that is worth a beat. */
  concerns(message: string): boolean {
    return message !== 'acknowledged' || this.#isWaiting
  }

  /** A beat. Returns after how many milliseconds the next is due. */
  async tick(): Promise<number> {
    this.#dropIfLate() // Others may have had its buckets meanwhile, also if it gets the same seat again.
    const sentAt = monotonicMs()
    // Handlers learn in time that they own its keys no more, also while nothing is claimed and no beat succeeds.
    const state = await this.#beat(false).finally(() => this.#dropIfLate())
    if (state === undefined) {
      this.#leaveEpoch()
      this.#allow(new Map(), 0)
      return IDLE_BEAT_MS
    }
    if (state.seat === undefined || state.seat === null) {
      this.#leaveEpoch()
      const concerned = this.#queues.filter((queue) => state.strategies[queue] !== undefined)
      this.#allow(new Map(concerned.map((queue) => [queue, NONE])), 0, this.#offIn(state.strategies))
      if (state.seat === null && this.#isDivided(state)) throw new SeatTakenError(this.#options.seat)
      return IDLE_BEAT_MS
    }
    this.#seat = state.seat
    this.#usableUntil = sentAt + USABLE_PART * this.#seatLeaseMs
    const epoch = state.epochs[state.epoch]!
    const owned = this.#ownedIn(epoch, state.seat)
    const off = this.#offIn(epoch.strategies)
    if (this.#has?.epoch !== state.epoch || this.#has.salt !== state.salt) {
      this.#allow(new Map([...owned].map(([queue, set]) => [queue, this.#nowIn(queue).and(set)])), state.epoch, off)
      await this.#options.claimsAnswered()
      this.#has = { epoch: state.epoch, salt: state.salt }
      this.#waitsSince = monotonicMs()
      return 0
    }
    const taken = this.#stillOfOthers(state)
    this.#allow(
      new Map([...owned].map(([queue, set]) => [queue, set.minus(taken.get(queue) ?? NONE)])),
      state.epoch,
      off,
    )
    this.#isWaiting = [...owned].some(([queue, set]) => set.size > this.#nowIn(queue).size)
    if (!this.#isWaiting) return this.#seatLeaseMs / BEATS_PER_LEASE
    if (monotonicMs() - (this.#waitsSince ?? Number.POSITIVE_INFINITY) >= LONG_WAIT_PART * this.#seatLeaseMs) {
      this.#waitsSince = undefined
      this.#reportWaiting(owned, state.epoch)
    }
    return Math.min(WAITING_BEAT_MS, this.#seatLeaseMs / BEATS_PER_LEASE)
  }

  /** Gives the seat back, once no claim is under way. */
  async leave(): Promise<void> {
    if (this.#seat === undefined) return
    this.#allow(new Map([...this.#allowed.keys()].map((queue) => [queue, NONE])), this.#has?.epoch ?? 0)
    await this.#options.claimsAnswered()
    await this.#beat(true)
    this.#leaveEpoch()
  }

  #beat(leaves: boolean): Promise<RingState | undefined> {
    const { lane, worker, weight, seat } = this.#options
    const leaseMs = this.#seatLeaseMs
    return beat(lane, { worker, queues: this.#queues, weight, wants: seat, leaseMs, has: this.#has, leaves })
  }

  #leaveEpoch(): void {
    this.#seat = undefined
    this.#has = undefined
    this.#isWaiting = false
    this.#usableUntil = Number.POSITIVE_INFINITY
  }

  #isDivided({ strategies }: RingState): boolean {
    return this.#queues.some((queue) => strategies[queue] !== undefined && strategies[queue] !== 'off')
  }

  /** Off: any worker may. */
  #offIn(strategies: Strategies): Set<string> {
    return new Set(this.#queues.filter((queue) => strategies[queue] === 'off'))
  }

  #ownedIn(epoch: Epoch, seat: number): Map<string, BucketSet> {
    const { strategies } = epoch
    const owned = new Map<string, BucketSet>()
    for (const queue of this.#queues) {
      const strategy = strategies[queue]
      if (strategy === 'off') owned.set(queue, NONE)
      else if (strategy !== undefined)
        owned.set(queue, BucketSet.ownedBy(ringMap(strategy, seatsOf(epoch, queue)), seat))
    }
    return owned
  }

  /** What seats that have not acknowledged the epoch may still claim. An epoch that is not on record any more may be anything. */
  #stillOfOthers({ others, epochs, epoch: latest }: RingState): Map<string, BucketSet> {
    const { strategies } = epochs[latest]!
    const taken = new Map<string, BucketSet>()
    for (const queue of this.#queues) {
      if (strategies[queue] === undefined || strategies[queue] === 'off') continue
      const ownedIn = new Map<number, (seat: number) => BucketSet>() // A map takes milliseconds with many seats.
      for (const { seat, epoch } of others) {
        const ownedBy = ownedIn.get(epoch) ?? this.#divided(epochs[epoch], queue)
        ownedIn.set(epoch, ownedBy)
        taken.set(queue, (taken.get(queue) ?? NONE).or(ownedBy(seat)))
      }
    }
    return taken
  }

  #divided(epoch: Epoch | undefined, queue: string): (seat: number) => BucketSet {
    const strategy = epoch?.strategies[queue]
    if (epoch === undefined || strategy === 'off') return () => BucketSet.all()
    if (strategy === undefined) return () => NONE
    const map = ringMap(strategy, seatsOf(epoch, queue))
    return (seat) => BucketSet.ownedBy(map, seat)
  }

  #nowIn(queue: string): BucketSet {
    return this.#allowed.get(queue) ?? NONE
  }

  #dropIfLate(): void {
    if (monotonicMs() < this.#usableUntil) return
    this.#usableUntil = Number.POSITIVE_INFINITY
    this.#allow(new Map([...this.#allowed.keys()].map((queue) => [queue, NONE])), this.#has?.epoch ?? 0)
  }

  #allow(allowed: ReadonlyMap<string, BucketSet>, epoch: number, off: ReadonlySet<string> = new Set()): void {
    const before = this.#allowed
    let hasChanged =
      before.size !== allowed.size || this.#queues.some((queue) => this.#off.has(queue) !== off.has(queue))
    this.#allowed = allowed
    this.#off = off
    this.#lines = undefined
    const { events, onChange } = this.#options
    for (const queue of new Set([...before.keys(), ...allowed.keys()])) {
      const [was, is] = [before.get(queue) ?? NONE, allowed.get(queue) ?? NONE]
      const [lost, gained] = [was.minus(is), is.minus(was)]
      hasChanged ||= lost.size + gained.size > 0
      if (lost.size > 0) events.lost({ queue, buckets: [...lost], epoch })
      if (gained.size > 0) events.gained({ queue, buckets: [...gained], epoch })
    }
    if (hasChanged) onChange()
  }

  #reportWaiting(owned: ReadonlyMap<string, BucketSet>, epoch: number): void {
    for (const [queue, set] of owned) {
      const waiting = set.minus(this.#nowIn(queue))
      if (waiting.size > 0) this.#options.events.waiting({ queue, buckets: [...waiting], epoch })
    }
  }
}
