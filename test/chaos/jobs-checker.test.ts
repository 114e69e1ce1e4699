// The checker of `npm run chaos:jobs` on a made-up history: it accepts a correct one, and each rule reports its own fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdictOf } from '../../chaos/common/report.ts'
import { check } from '../../chaos/jobs/checker.ts'
import { countsOf, missing, mustHappen } from '../../chaos/jobs/coverage.ts'
import { FAULTS } from '../../chaos/jobs/faults/deck.ts'
import { type Plan, planOf } from '../../chaos/jobs/plan.ts'
import { PLANTS } from '../../chaos/jobs/plants/all.ts'
import { WORKLOADS } from '../../chaos/jobs/workloads/all.ts'
import { checkerSuite } from './checker-suite.ts'
import { CASES } from './jobs-cases.ts'
import { asItShouldBe } from './jobs-history.ts'

const brokenIn = checkerSuite({ name: 'jobs', check, asItShouldBe, cases: CASES, faults: FAULTS, plants: PLANTS })

test('an expired job may start after a redrive that a failover has undone', () => {
  const draft = asItShouldBe()
  draft.say('harness', 29_980, 'redrive', { job: '17', askedAt: 29_970 })
  draft.say('worker-1.1', 30_000, 'started', { w: 'expiring-17', job: '17', gen: 29_990 })
  assert.ok(brokenIn(draft).every((broken) => !broken.startsWith('a job that has expired')))
})

test('jobs of a key whose records were lost with a lease may run again, in order', () => {
  const draft = asItShouldBe()
  draft.runsAgain('19', 36_000)
  draft.runsAgain('20', 36_100)
  assert.ok(brokenIn(draft).every((broken) => !broken.startsWith('a job of a key starts')))
})

test('a job of a key may end in the millisecond in which it and the next one start', () => {
  const draft = asItShouldBe()
  const { at } = draft.line('started', ({ w }) => w === 'ordered-19')
  for (const e of ['started', 'ended'])
    Object.assign(
      draft.line(e, ({ w }) => w === 'ordered-20'),
      { at },
    )
  assert.ok(brokenIn(draft).every((broken) => !broken.startsWith('no two jobs of a key')))
})

test('a run that misses an expected event is void', () => {
  const counts = new Map(mustHappen().map((name) => [name, 1]))
  assert.deepEqual(missing(counts), [])
  counts.delete('reported: refused')
  counts.set('fault: failover', 0)
  assert.deepEqual(missing(counts), ['fault: failover', 'reported: refused'])
  assert.equal(verdictOf({ findings: [], missing: missing(counts) }), 'void')
  const seen = countsOf(asItShouldBe().history())
  assert.equal(seen.get('reported: refused'), 1)
  assert.equal(seen.get('work: lost with a WAL tail'), 1)
  assert.equal(seen.get('jobs: reclaimed by the sweep'), 2)
})

test('a seed gives the same plan each time; every fault and workload occurs within a minute', () => {
  const plain = (plan: Plan) => JSON.stringify(plan)
  assert.equal(plain(planOf(7, 60_000)), plain(planOf(7, 60_000)))
  assert.notEqual(plain(planOf(8, 60_000)), plain(planOf(7, 60_000)))
  const { faults, steps } = planOf(7, 60_000)
  assert.deepEqual(new Set(faults.map(({ fault }) => fault)), new Set(FAULTS.map(({ name }) => name)))
  assert.deepEqual(new Set(steps.map(({ workload }) => workload)), new Set(WORKLOADS.map(({ name }) => name)))
  assert.equal(new Set(steps.map(({ w }) => w)).size, steps.length)
})
