// The checker of `npm run chaos:workflow` on a made-up history: it accepts a correct one, and each rule reports its own fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdictOf } from '../../chaos/common/report.ts'
import { check } from '../../chaos/workflow/checker.ts'
import { countsOf, missing, mustHappen } from '../../chaos/workflow/coverage.ts'
import { CARRIED_OUT } from '../../chaos/workflow/faults.ts'
import { FAULTS, planOf, waitsForEver } from '../../chaos/workflow/plan.ts'
import { PLANTS } from '../../chaos/workflow/plants/all.ts'
import { endOf, leavesOf } from '../../chaos/workflow/program.ts'
import { checkerSuite } from './checker-suite.ts'
import { CASES } from './workflow-cases.ts'
import { asItShouldBe } from './workflow-history.ts'

const brokenIn = checkerSuite({ name: 'workflow', check, asItShouldBe, cases: CASES, faults: FAULTS, plants: PLANTS })

test('a stale process may begin what another one has recorded, if it records nothing', () => {
  const draft = asItShouldBe()
  draft.note('harness', 6_020, 'struck', { who: 'worker-1.1', signal: 'SIGSTOP' })
  draft.execute('b', 'step', 'step3', 6_200, { i: 2, p: 'worker-1.1' })
  assert.deepEqual(brokenIn(draft), [])
})

test('a run that misses an expected event is void', () => {
  const counts = new Map(mustHappen().map((name) => [name, 1]))
  assert.deepEqual(missing(counts), [])
  counts.delete('tx: executed again')
  counts.set('fault: SIGKILL worker', 0)
  assert.deepEqual(missing(counts), ['fault: SIGKILL worker', 'tx: executed again'])
  assert.equal(verdictOf({ findings: [], missing: missing(counts) }), 'void')
  const seen = countsOf(asItShouldBe().history())
  assert.equal(seen.get('runs: that changed workers'), 1)
  assert.equal(seen.get('steps: executed again'), 1)
  assert.equal(seen.get('steps: executed and not recorded'), 1)
  assert.equal(seen.get('steps: undone'), 4)
  assert.equal(seen.get('waits: the time came first'), 1)
  assert.equal(seen.get('signals: left'), 1)
})

test('a seed gives the same plan each time; every fault occurs within a minute, and each can be carried out', () => {
  const plain = (seed: number) => JSON.stringify(planOf(seed, 60_000))
  assert.equal(plain(7), plain(7))
  assert.notEqual(plain(8), plain(7))
  const { faults } = planOf(7, 60_000)
  assert.deepEqual(new Set(faults.map(({ fault }) => fault)), new Set(FAULTS.map(({ name }) => name)))
  for (const { fault } of faults) assert.ok(fault in CARRIED_OUT, fault)
})

test('every plan has all parts of programs, all ends and all actions, also a short one', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { steps } = planOf(seed, 14_000)
    const ends = new Set(steps.map(({ program }) => endOf(program)))
    assert.deepEqual(ends, new Set(['returns', 'fails', 'compensates']), `seed ${seed}`)
    assert.deepEqual(new Set(steps.map(({ fate }) => fate)), new Set(['commit', 'rollback', 'die']), `seed ${seed}`)
    const leaves = new Set(steps.flatMap(({ program }) => leavesOf(program).map(({ leaf }) => leaf.do)))
    assert.deepEqual(leaves, new Set(['step', 'tx', 'sleep', 'signal', 'any', 'job', 'child']), `seed ${seed}`)
    // Whatever waits for ever is cancelled.
    const isCancelled = ({ actions }: (typeof steps)[number]) => actions.some(({ act }) => act === 'cancel')
    const waiting = steps.filter((step) => step.fate === 'commit' && waitsForEver(step))
    assert.ok(waiting.length > 0 && waiting.every(isCancelled), `seed ${seed}`)
  }
})

test('names are unique within a program, and a commit follows a step', () => {
  for (const { program } of planOf(3, 60_000).steps) {
    const names = leavesOf(program).map(({ leaf }) => leaf.name)
    assert.equal(new Set(names).size, names.length)
    if (program.do !== 'sequence') continue
    const at = program.of.findIndex((each) => each.do === 'commit')
    if (at >= 0) assert.equal(program.of[at - 1]!.do, 'step')
  }
})
