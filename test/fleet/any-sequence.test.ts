// Any sequence of joins, leaves, deaths, lost beats and pauses: at no step do two members claim from one bucket.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { assertDisjoint, assertDivided, type Ring, ring, SEAT_LEASE_MS, type TestMember } from '../support/ring.ts'

const STRATEGIES = ['consistent', 'rendezvous', 'modulo'] as const
/** A claim that is answered within this time ends before the lease of its seat. */
const CLAIM_MS = 0.2 * SEAT_LEASE_MS

type Step =
  | { readonly do: 'join'; readonly weight: number }
  | { readonly do: 'leave' | 'die' | 'beat' | 'claim' | 'answer'; readonly who: number }
  | { readonly do: 'beat'; readonly who: number; readonly fate: TestMember['nextBeat'] }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'divide'; readonly by: (typeof STRATEGIES)[number] }

const who = fc.nat(5)
const fate = fc.constantFrom<TestMember['nextBeat']>('arrives', 'never arrives', 'loses its reply')
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('join' as const), weight: fc.constantFrom(1, 1, 3) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('leave' as const, 'die' as const), who }) },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('beat' as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('beat' as const), who, fate }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('claim' as const, 'answer' as const), who }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(500, 2_500, 8_000, 10_500) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('divide' as const), by: fc.constantFrom(...STRATEGIES) }) },
)

interface Sent {
  readonly buckets: ReadonlySet<number>
  readonly at: number
  answer(): void
}

/** A member, and what it has under way. */
class Actor {
  readonly member: TestMember
  sent: Sent | undefined
  beat: Promise<unknown> | undefined

  constructor(member: TestMember) {
    this.member = member
  }

  claims(now: number): void {
    this.sent ??= { buckets: this.member.buckets(), at: now, answer: this.member.claim() }
  }

  async answers(): Promise<void> {
    this.sent?.answer()
    this.sent = undefined
    await this.beat
  }

  /** A beat that waits for a claim stays under way. */
  async beats(): Promise<void> {
    if (this.beat !== undefined) return
    const beat = this.member.ring
      .tick()
      .catch(() => {})
      .finally(() => {
        this.beat = undefined
      })
    this.beat = beat
    if (this.sent === undefined) await beat
    else await Promise.race([beat, this.member.waitsForClaims()])
  }
}

async function play({ member, configure, pass, map, db }: Ring, steps: readonly Step[]): Promise<void> {
  await db.pool.query('truncate leasehold.seat, leasehold.epoch')
  await configure('consistent')
  const alive: Actor[] = [new Actor(member()), new Actor(member())]
  let now = 0
  const of = (who: number) => alive[who % alive.length]!
  const remove = (actor: Actor) => alive.splice(alive.indexOf(actor), 1)
  const perform = async (step: Step) => {
    if (step.do === 'join') {
      if (alive.length < 5) alive.push(new Actor(member('m', { weight: step.weight })))
      return
    }
    if (step.do === 'pass') {
      now += step.ms
      return pass(step.ms)
    }
    if (step.do === 'divide') return configure(step.by)
    const actor = of(step.who)
    if (step.do === 'claim') actor.claims(now)
    else if (step.do === 'answer') await actor.answers()
    else if (step.do === 'beat') {
      if ('fate' in step && actor.beat === undefined) actor.member.nextBeat = step.fate
      await actor.beats()
    } else if (alive.length > 1) {
      remove(actor)
      await actor.answers()
      if (step.do === 'leave') await actor.member.ring.leave()
    }
  }
  for (const step of steps) {
    await perform(step)
    const members = alive.map(({ member }) => member)
    assertDisjoint(members)
    for (const { sent, member } of alive) {
      if (sent === undefined || now - sent.at >= CLAIM_MS) continue
      for (const other of members.filter((each) => each !== member))
        for (const bucket of other.buckets())
          assert.ok(!sent.buckets.has(bucket), `bucket ${bucket} is asked for by a claim under way`)
    }
  }
  // Quiet: all claims are answered, the seats of the dead expire, and all beat.
  for (const actor of alive) await actor.answers()
  for (let round = 0; round < 6; round++) {
    await pass(SEAT_LEASE_MS / 4)
    for (const { member } of alive) {
      await member.settle()
      assertDisjoint(alive.map((each) => each.member))
    }
  }
  const members = alive.map((each) => each.member)
  assertDivided(members)
  const owners = await map()
  const seats = new Set(members.map((each) => owners[[...each.buckets()][0]!]))
  assert.equal(seats.size, members.length, 'each has what its seat owns')
}

test('no two members ever claim from one bucket, and in the end every bucket has one owner', async (t) => {
  const scene = await ring(t)
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 50 }), (steps) => play(scene, steps)),
    { numRuns: 25 },
  )
})
