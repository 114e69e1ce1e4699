// The checker of `npm run chaos:jobs` on a made-up history: it accepts a correct one, and each rule reports its own fault.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { verdictOf } from '../../chaos/common/report.ts'
import { check } from '../../chaos/jobs/checker.ts'
import { countsOf, missing, mustHappen } from '../../chaos/jobs/coverage.ts'
import { FAULTS } from '../../chaos/jobs/faults/deck.ts'
import { type Plan, planOf } from '../../chaos/jobs/plan.ts'
import { PLANTS } from '../../chaos/jobs/plants/all.ts'
import { WORKLOADS } from '../../chaos/jobs/workloads/all.ts'
import { CASES } from './jobs-cases.ts'
import { asItShouldBe, type Draft } from './jobs-history.ts'

function brokenIn(draft: Draft): string[] {
  return check(draft.history())
    .filter(({ broken }) => broken.length > 0)
    .map(({ promise, broken }) => `${promise}: ${broken[0]!.split('\n')[0]}`)
}

test('a correct history breaks no rule, and every rule checks something', () => {
  assert.deepEqual(brokenIn(asItShouldBe()), [])
  for (const { promise, checked } of check(asItShouldBe().history())) assert.ok(checked > 0, promise)
})

for (const [name, [change, expected]] of Object.entries(CASES)) {
  test(`the checker reports: ${name}`, () => {
    const draft = asItShouldBe()
    change(draft)
    const found = brokenIn(draft)
    assert.ok(
      found.some((each) => expected.test(each)),
      `${expected} is not in:\n${found.join('\n')}`,
    )
  })
}

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

test('every rule has a case', () => {
  const rules = check(asItShouldBe().history()).map(({ promise }) => promise)
  const expected = Object.values(CASES).map(([, { source }]) => source.replaceAll('\\', '').slice(1, 22))
  for (const rule of rules)
    assert.ok(
      expected.some((start) => rule.startsWith(start.split(':')[0]!.split('.*')[0]!)),
      rule,
    )
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

test('each plant names existing faults and an existing rule', () => {
  const rules = check(asItShouldBe().history()).map(({ promise }) => promise)
  const names = FAULTS.map(({ name }) => name)
  for (const [plant, { faults, breaks }] of Object.entries(PLANTS)) {
    for (const fault of faults) assert.ok(names.includes(fault), `${plant}: ${fault}`)
    assert.ok(
      rules.some((rule) => breaks.test(rule)),
      plant,
    )
  }
})

test('the checker shares no code with the library', () => {
  const seen = new Set<string>()
  const follow = (path: string) => {
    if (seen.has(path)) return
    seen.add(path)
    for (const [, names, target] of readFileSync(path, 'utf8').matchAll(
      /^import (?!type)([^;]*?)from '(\.[^']+)'/gms,
    )) {
      assert.doesNotMatch(target!, /\/src\//, `${path} imports ${names}`)
      follow(join(dirname(path), target!))
    }
  }
  follow(fileURLToPath(new URL('../../chaos/jobs/checker.ts', import.meta.url)))
  assert.ok(seen.size > 10)
})
