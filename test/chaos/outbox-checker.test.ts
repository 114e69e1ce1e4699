// The checker of `npm run chaos:outbox` on a made-up history: it accepts a correct one, and each rule reports its own fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdictOf } from '../../chaos/common/report.ts'
import { check } from '../../chaos/outbox/checker.ts'
import { countsOf, missing, mustHappen } from '../../chaos/outbox/coverage.ts'
import { CARRIED_OUT } from '../../chaos/outbox/faults.ts'
import { DAY_PASSES, FAULTS, planOf } from '../../chaos/outbox/plan.ts'
import { PLANTS } from '../../chaos/outbox/plants/all.ts'
import { type Cases, checkerSuite } from './checker-suite.ts'
import { asItShouldBe, type Draft, idOf } from './outbox-history.ts'

const CASES: Cases<Draft> = {
  'an event is not received': [(d) => d.dropEffect('ledger', 'b'), /^every event that was committed.*: b .* at ledger/],
  'an event behind an unblocked dead letter is not received': [
    (d) => d.dropEffect('stock', 'e'),
    /^every event that was committed.*: e .* at stock/,
  ],
  'a rolled back event is received': [
    (d) => d.effects.push({ ...d.effect('audit', 'a'), w: 'undone', id: idOf('undone') }),
    /^nothing that was rolled back.*: undone at audit/,
  ],
  'an event of a producer that died is received': [
    (d) => d.effects.push({ ...d.effect('audit', 'a'), w: 'dead', id: idOf('dead') }),
    /^nothing that was rolled back.*: dead at audit/,
  ],
  'a copy has another id': [
    (d) => d.note('consumer-3.3', 2_800, 'delivered', { to: 'ledger', id: 'other', w: 'a', times: 1 }),
    /^every delivery, also of a copy.*: a at ledger: delivered as other/,
  ],
  'an event has its effect twice': [
    (d) => d.effects.push({ ...d.effect('ledger', 'a'), at: 2_750 }),
    /^an event has its effect once.*: a .* at ledger: 2 effects/,
  ],
  'an event overtakes another of its key': [
    (d) => Object.assign(d.effect('stock', 'b'), { at: 1_150 }),
    /^events of a key are first received.*: a .* at stock: received after b/,
  ],
  'data is changed on its way': [
    (d) => Object.assign(d.effect('audit', 'c'), { digest: 'other' }),
    /^data arrives byte by byte.*: c at audit/,
  ],
  'a key is changed on its way': [
    (d) => Object.assign(d.effect('audit', 'c'), { key: 'order:1' }),
    /^data arrives byte by byte.*: c at audit/,
  ],
  'the event of a dead letter is gone': [
    (d) => Object.assign(d.unsent[0]!, { isStored: false }),
    /^retention drops no event.*: id-p for ledger/,
  ],
  'a relay finds no event': [
    (d) => Object.assign(d.unsent[0]!, { error: 'event id-p is not in the database; it is past its retention' }),
    /^retention drops no event.*: id-p for ledger/,
  ],
  'a poison event is no dead letter': [
    (d) => d.unsent.splice(0, 1),
    /^a poison event is a dead letter.*: p at ledger: dead letters: none/,
  ],
  'a poison event has another reason': [
    (d) => Object.assign(d.unsent[0]!, { reason: 'attempts_exhausted' }),
    /^a poison event is a dead letter.*: p at ledger: dead letters: attempts_exhausted/,
  ],
  'a sound event is a dead letter': [
    (d) => d.letter('ledger', 'b', 'lease_expired'),
    /^a poison event is a dead letter.*: b at ledger: dead letters: lease_expired/,
  ],
  'an event of another key waits for the unblock': [
    (d) => Object.assign(d.effect('stock', 'b'), { at: 50_300 }),
    /^a poison event delays only its own key: b .* at stock/,
  ],
  'an event passes a dead letter that blocks its key': [
    (d) => Object.assign(d.effect('stock', 'd'), { at: 5_200 }),
    /^a key behind a dead letter.*: d .* at stock: received while/,
  ],
  'an event passes the second dead letter of its key': [
    (d) => Object.assign(d.effect('stock', 'e'), { at: 51_000 }),
    /^a key behind a dead letter.*: e .* at stock: received while/,
  ],
  'a parked event is received': [
    (d) => d.receive('audit', 'd', 7_000),
    /^a key behind a dead letter.*: d .* at audit: received, though/,
  ],
  'a parked event is gone': [
    (d) => Object.assign(d, { unsent: d.unsent.filter(({ id }) => id !== idOf('e')) }),
    /^a key behind a dead letter.*: e .* at audit: neither/,
  ],
  'something is left in the end': [
    (d) => d.note('harness', 59_000, 'stuck', { what: '3 in SQS' }),
    /^everything came to its end in time: 3 in SQS/,
  ],
  'a process ends by itself': [
    (d) => d.note('harness', 9_000, 'end', { who: 'relay-2.9', code: 1, signal: null, tookMs: 0, stderr: 'oh' }),
    /^processes end only when.*: relay-2.9 ended by itself/,
  ],
  'a process does not leave in time': [
    (d) => Object.assign(d.lines.at(-1)!, { tookMs: 30_000 }),
    /^processes end only when.*: relay-0.0 left after 30000 ms/,
  ],
}

const brokenIn = checkerSuite({ name: 'outbox', check, asItShouldBe, cases: CASES, faults: FAULTS, plants: PLANTS })

test('a late copy that the inbox drops breaks nothing', () => {
  const draft = asItShouldBe()
  draft.note('consumer-4.4', 49_000, 'delivered', { to: 'stock', id: idOf('a'), w: 'a', times: 3 })
  assert.deepEqual(brokenIn(draft), [])
})

test('a run that misses an expected event is void', () => {
  const counts = new Map(mustHappen().map((name) => [name, 1]))
  assert.deepEqual(missing(counts), [])
  counts.delete('relay: sent again')
  counts.set('fault: SIGKILL broker', 0)
  assert.deepEqual(missing(counts), ['fault: SIGKILL broker', 'relay: sent again'])
  assert.equal(verdictOf({ findings: [], missing: missing(counts) }), 'void')
  const seen = countsOf(asItShouldBe().history())
  assert.equal(seen.get('relay: sent again'), 1)
  assert.equal(seen.get('consumer: delivered again'), 1)
  assert.equal(seen.get('events: dropped by retention'), 2)
  assert.equal(seen.get('events: parked'), 3)
})

test('a seed gives the same plan each time; every fault occurs within a minute, and each can be carried out', () => {
  const plain = (seed: number) => JSON.stringify(planOf(seed, 60_000))
  assert.equal(plain(7), plain(7))
  assert.notEqual(plain(8), plain(7))
  const { faults } = planOf(7, 60_000)
  assert.deepEqual(new Set(faults.map(({ fault }) => fault)), new Set([...FAULTS.map(({ name }) => name), DAY_PASSES]))
  for (const { fault } of faults) assert.ok(fault in CARRIED_OUT, fault)
})

test('in every plan producers die and roll back, and poison begins in the second half', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { steps, durationMs } = planOf(seed, 14_000)
    const isPoison = ({ events }: (typeof steps)[number]) => events.some(({ poison }) => poison)
    assert.deepEqual(new Set(steps.map(({ fate }) => fate)), new Set(['commit', 'rollback', 'die']), `seed ${seed}`)
    assert.ok(steps.some(isPoison), `seed ${seed}`)
    assert.ok(steps.find(isPoison)!.atMs >= durationMs / 2)
  }
})
