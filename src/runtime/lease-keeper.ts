/**
 * Keeps leases: renews each at a third of its length, and gives it up in time.
 *
 * A lease begins when the server carries out the request for it, which is after we sent that. So `grantedUntil`, counted on the
 * monotonic clock from when the request was sent, is never later than the server's own end of the lease, and our deadline is a
 * margin before it. When it passes without a renewal that is known to have succeeded, the server has given the lease to no other
 * holder yet, but may soon: the holder must stop. The alarm for that does not depend on renewing, because a renewal may hang.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import { Loop, type LoopEvents } from './loop.ts'

const LARGEST_MARGIN_MS = 1_000
/** A lease that is due within this is renewed now: sums of fractions are not exact. */
const ROUNDING_MS = 1

export interface KeptLease {
  /** When the last granted request was sent, plus what it granted. */
  grantedUntil: number
  /** Our own end of the lease, a margin earlier. */
  deadline: number
}

export interface LeaseKeeperParts<Held> extends LoopEvents {
  /** Renews these. Calls granted() for each that was renewed, and release() for each that was refused for good. */
  renew(due: readonly Held[]): Promise<void>
  /** Its deadline has passed. It is no longer kept. */
  expired(held: Held): void
  /** What a renewal sent now would grant. Default: the length of the lease. */
  grantMs?(held: Held, now: number): number
}

export class LeaseKeeper<Held extends KeptLease> {
  readonly #leaseMs: number
  readonly #parts: LeaseKeeperParts<Held>
  readonly #kept = new Set<Held>()
  readonly #loop: Loop
  readonly #alarm = new Alarm(() => this.#giveUp())

  constructor(leaseMs: number, parts: LeaseKeeperParts<Held>) {
    this.#leaseMs = leaseMs
    this.#parts = parts
    // A backoff must not sleep through what is left of a short lease.
    this.#loop = new Loop(() => this.#renewDue(), parts, leaseMs / 6)
  }

  start(): void {
    this.#loop.start()
  }

  /** Renews no more. Resolves when the renewal under way has ended. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    this.#alarm.set(Number.POSITIVE_INFINITY)
  }

  /** Notes what a request has granted: a lease until then, at least. */
  granted(held: KeptLease, until: number): void {
    held.grantedUntil = until
    held.deadline = until - Math.min(LARGEST_MARGIN_MS, this.#leaseMs / 10)
  }

  keep(held: Held): void {
    this.#kept.add(held)
    this.#alarm.setEarlier(held.deadline)
    this.#loop.tickWithin(this.#dueInMs(held))
  }

  /** Its holder is done with it, or has lost it. Returns whether it was kept. */
  release(held: Held): boolean {
    return this.#kept.delete(held)
  }

  isKept(held: Held): boolean {
    return this.#kept.has(held)
  }

  async #renewDue(): Promise<number> {
    const due = [...this.#kept].filter((held) => this.#dueInMs(held) <= ROUNDING_MS)
    if (due.length > 0) await this.#parts.renew(due)
    return this.#kept.size === 0 ? Number.POSITIVE_INFINITY : this.#leaseMs / 6
  }

  /** Until a renewal would gain a third of the lease. */
  #dueInMs(held: Held): number {
    const now = monotonicMs()
    const grantMs = this.#parts.grantMs?.(held, now) ?? this.#leaseMs
    return held.grantedUntil + this.#leaseMs / 3 - grantMs - now
  }

  #giveUp(): void {
    const now = monotonicMs()
    let next = Number.POSITIVE_INFINITY
    for (const held of [...this.#kept]) {
      if (!this.#kept.has(held)) continue // Released while another one was given up.
      if (held.deadline > now) next = Math.min(next, held.deadline)
      else {
        this.#kept.delete(held)
        this.#parts.expired(held)
      }
    }
    this.#alarm.set(next)
  }
}
