// Members of a ring that a test drives beat by beat. Time passes by pass() alone, for the database and for the process.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { BUCKETS } from '../../src/core/bucket.ts'
import type { Strategy } from '../../src/core/strategy.ts'
import { Lane } from '../../src/db/lane.ts'
import { seatsOf } from '../../src/jobs/ring.ts'
import { ringMap } from '../../src/ring/map.ts'
import { type RingChange, RingMember, type RingMemberOptions } from '../../src/worker/ring-member.ts'
import { freshDatabase, type TestDatabase } from './database.ts'
import { type MovableClock, movableClock } from './movable-clock.ts'
import { newWorker } from './queue.ts'

export const SEAT_LEASE_MS = 10_000
/** From then on a member claims nothing of its lines. */
export const USABLE_MS = 8_000

export interface Ring {
  readonly db: TestDatabase
  readonly lane: Lane
  configure(strategy: Strategy | 'off' | null, queue?: string): Promise<void>
  member(label?: string, options?: Partial<RingMemberOptions>): TestMember
  pass(ms: number): Promise<void>
  /** Who owns each bucket in the newest epoch: the number of a seat. */
  map(queue?: string): Promise<Uint16Array>
}

export async function ring(t: TestContext): Promise<Ring> {
  const db = await freshDatabase(t)
  await db.clock.advance('0 s')
  await db.pool.query(`create or replace function leasehold.clock() returns timestamptz language sql stable
    as $$ select timestamptz '2030-01-01 00:00Z' + (select shift from leasehold_test.clock) $$`)
  const clock = movableClock(t, { stands: true })
  const lane = new Lane(db.pool)
  return {
    db,
    lane,
    configure: async (strategy, queue = 'q') => {
      await db.pool.query(
        `insert into leasehold.queue (name, ordered, ring) values ($1, true, $2)
        on conflict (name) do update set ring = excluded.ring`,
        [queue, strategy],
      )
    },
    member: (label = 'm', options = {}) => new TestMember(lane, clock, label, options),
    pass: async (ms) => {
      clock.pass(ms)
      await db.clock.advance(`${ms} ms`)
    },
    map: async (queue = 'q') => {
      const { rows } = await db.pool.query('select seats, strategies from leasehold.epoch order by number desc limit 1')
      const strategy = rows[0].strategies[queue]
      assert.ok(strategy !== undefined && strategy !== 'off', `${queue} is on the ring`)
      return ringMap(strategy, seatsOf(rows[0], queue))
    },
  }
}

/** A member, its claims under way, and what happens to its beats. */
export class TestMember {
  readonly ring: RingMember
  readonly worker = newWorker()
  readonly gained: RingChange[] = []
  readonly lost: RingChange[] = []
  readonly waiting: RingChange[] = []
  /** What the next beat meets. */
  nextBeat: 'arrives' | 'never arrives' | 'loses its reply' = 'arrives'
  #waits = () => {}
  #claims: { readonly answered: Promise<void>; answer(): void; readonly lines: ReadonlySet<string> }[] = []

  constructor(lane: Lane, _clock: MovableClock, label: string, options: Partial<RingMemberOptions>) {
    const worker = { ...this.worker, label }
    this.ring = new RingMember({
      lane: this.#faulty(lane),
      worker,
      queues: ['q'],
      weight: 1,
      seat: undefined,
      leaseMs: 30_000,
      claimsAnswered: async () => {
        this.#waits()
        await Promise.all(this.#claims.map(({ answered }) => answered))
      },
      onChange: () => {},
      events: {
        gained: (change) => this.gained.push(change),
        lost: (change) => this.lost.push(change),
        waiting: (change) => this.waiting.push(change),
      },
      ...options,
    })
  }

  /** The buckets that it may claim from now. */
  buckets(queue = 'q'): Set<number> {
    const lines = this.ring.lines?.filter((line) => line.queue === queue && line.line > 0) ?? []
    return new Set(lines.map(({ line }) => line - 1))
  }

  /** Sends a claim, which is answered when the function returned is called. */
  claim(): () => void {
    const lines = new Set((this.ring.lines ?? []).map(({ queue, line }) => `${queue} ${line}`))
    let answer = () => {}
    const answered = new Promise<void>((resolve) => {
      answer = resolve
    })
    const claim = { answered, answer, lines }
    this.#claims.push(claim)
    return () => {
      this.#claims = this.#claims.filter((each) => each !== claim)
      answer()
    }
  }

  /** Resolves when the member waits for its claims the next time. */
  waitsForClaims(): Promise<void> {
    return new Promise((resolve) => {
      this.#waits = resolve
    })
  }

  /** Beats until it need not beat again at once. */
  async settle(): Promise<number> {
    for (let beats = 0; beats < 10; beats++) {
      const inMs = await this.ring.tick()
      if (inMs > 0) return inMs
    }
    throw new Error('it would beat for ever')
  }

  #faulty(lane: Lane): Lane {
    const run = async (...args: Parameters<Lane['run']>) => {
      const fate = this.nextBeat
      this.nextBeat = 'arrives'
      if (fate === 'never arrives') throw new Error('the beat is lost')
      const rows = await lane.run(...args)
      if (fate === 'loses its reply') throw new Error('the reply is lost')
      return rows
    }
    return { run } as unknown as Lane
  }
}

/** All of them beat until none changes any more. */
export async function settleAll(members: readonly TestMember[], rounds = 3): Promise<void> {
  for (let round = 0; round < rounds; round++) for (const member of members) await member.settle()
}

/** Each bucket has exactly one owner among them. */
export function assertDivided(members: readonly TestMember[], queue = 'q'): void {
  assertDisjoint(members, queue)
  const owned = members.reduce((sum, member) => sum + member.buckets(queue).size, 0)
  assert.equal(owned, BUCKETS, 'every bucket has an owner')
}

/** No bucket has two owners. */
export function assertDisjoint(members: readonly TestMember[], queue = 'q'): void {
  const seen = new Map<number, number>()
  for (const [index, member] of members.entries()) {
    for (const bucket of member.buckets(queue)) {
      assert.ok(!seen.has(bucket), `bucket ${bucket} belongs to members ${seen.get(bucket)} and ${index}`)
      seen.set(bucket, index)
    }
  }
}
