// When claims and completions are sent, and in which statement, by a clock that the test moves. The database is a list of
// names here.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Lane } from '../../src/db/lane.ts'
import { newClaimId } from '../../src/jobs/claim.ts'
import { type Completion, MANY } from '../../src/jobs/completion.ts'
import type { ClaimedJob, JobId } from '../../src/jobs/job.ts'
import { heldUntil, type PendingOutcome } from '../../src/worker/pending-outcome.ts'
import { Turns } from '../../src/worker/turns.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { newWorker } from '../support/queue.ts'

const worker = newWorker()
const items = (count = 1): Completion[] =>
  Array.from({ length: count }, (_, n) => {
    return { jobId: String(n + 1) as JobId, claimId: newClaimId(), generation: 1, runFrom: null }
  })

/** `sent`: the statements, by their names; `over`: by their connections. `answer()` replies to the one in flight, in order. */
function scene(t: TestContext) {
  const clock = movableTimers(t, { runByThemselves: false, stands: true })
  const sent: string[] = []
  const over: string[] = []
  const open: (() => void)[] = []
  const queryOver =
    (connection: string) =>
    ({ text, values }: { text: string; values: unknown[] }) => {
      const name = /^-- (\S+)/.exec(text)![1]!
      sent.push(name)
      over.push(connection)
      const fields = ['available_at', 'completed', 'done'].map((column) => ({ name: column }))
      // A claim that finds everything paused.
      const rows = [[null, values[0], 't']]
      return new Promise((resolve) => open.push(() => resolve({ rows, fields })))
    }
  const laneOver = (connection: string) => new Lane({ query: queryOver(connection) } as never)
  const turns = new Turns(laneOver('claims'), laneOver('completions'))
  const settled = async () => {
    for (let turn = 0; turn < 4; turn++) await setImmediate()
  }
  return {
    clock,
    sent,
    over,
    turns,
    settled,
    claim: () => turns.claim({ claimId: newClaimId(), worker, kinds: ['k'], limit: 1, leaseMs: 1_000 }, []),
    complete: (count?: number) => turns.complete(worker, items(count)),
    answer: async () => {
      open.shift()!()
      await settled()
    },
  }
}

test('a claim is sent with completions that are about to leave, and alone when there are none', async (t) => {
  const { turns, sent, claim, complete, answer } = scene(t)
  void claim()
  assert.deepEqual(sent, ['job.claim'])
  await answer()
  turns.open()
  const along = claim()
  assert.equal(sent.length, 1)
  const ended = complete()
  assert.deepEqual(sent, ['job.claim', 'job.turn'])
  await answer()
  assert.deepEqual([(await along).jobs, await ended], [[], { refused: [], busy: [] }])
})

test('a claim that is wanted while a few completions are under way waits for them, and goes alone if none follow', async (t) => {
  const { turns, sent, claim, complete, answer, settled } = scene(t)
  turns.open()
  const ended = complete()
  const waits = claim()
  await settled()
  assert.deepEqual(sent, ['job.complete'])
  await answer()
  await ended
  turns.close()
  assert.deepEqual(sent, ['job.complete', 'job.claim'])
  await answer()
  await waits
})

test('no claim waits for many completions, or for a statement where statements take long', async (t) => {
  const { turns, clock, sent, claim, complete, answer, settled } = scene(t)
  turns.open()
  void complete(MANY)
  void claim()
  await settled()
  assert.deepEqual(sent.toSorted(), ['job.claim', 'job.complete_many'])
  await answer()
  await answer()
  turns.open()
  const slow = complete()
  await settled()
  clock.pass(6)
  await answer()
  await slow
  sent.length = 0
  turns.open()
  void complete()
  void claim()
  await settled()
  assert.deepEqual(sent.toSorted(), ['job.claim', 'job.complete'])
})

test('what ends soon after a statement waits for 5 ms, for a claim, or until there are many', async (t) => {
  const { turns, clock, settled, claim, complete, answer } = scene(t)
  let asked = 0
  turns.onLeaving = () => asked++
  const leaves = async () => {
    let left = false
    void turns.departure(1).then(() => {
      left = true
    })
    await settled()
    return () => left
  }
  assert.equal((await leaves())(), true, 'after a quiet moment nothing waits')

  const send = async () => {
    turns.open()
    const ended = complete()
    await settled()
    await answer()
    await ended
    turns.open()
  }
  await send()
  assert.equal(turns.waitMs(false), 5)
  const byTime = await leaves()
  clock.pass(4)
  await settled()
  assert.deepEqual([byTime(), asked], [false, 0])
  clock.pass(1)
  await settled()
  assert.deepEqual([byTime(), asked], [true, 1], 'a claim that can wait is asked for at the last moment')

  await send()
  const byClaim = await leaves()
  void claim()
  await settled()
  assert.equal(byClaim(), true)

  await send()
  const byNumber = await leaves()
  turns.ready(MANY - 1)
  await settled()
  assert.equal(byNumber(), false)
  turns.ready(MANY)
  await settled()
  assert.equal(byNumber(), true)
})

/** Completions leave so many milliseconds apart, for long enough that the worker expects the next. */
async function leaveEvery(gapMs: number, { clock, turns, complete, answer, settled }: ReturnType<typeof scene>) {
  for (let time = 0; time < 40; time++) {
    clock.pass(gapMs)
    turns.open()
    const ended = complete()
    await settled()
    await answer()
    await ended
  }
  turns.open()
}

function departure({ turns, settled }: ReturnType<typeof scene>, heldUntil: number) {
  let left = false
  void turns.departure(1, heldUntil).then(() => {
    left = true
  })
  return settled().then(() => () => left)
}

test('a claim in the middle of a run keeps its distance from claims, and from no completion', async (t) => {
  const { turns, clock, claim, complete, answer } = scene(t)
  // The clock that stands is a fraction, and sums of fractions are not exact.
  const waits = () => [turns.waitMs(false), turns.waitMs(true)].map(Math.round)
  void complete()
  await answer()
  assert.deepEqual(waits(), [5, 0])
  void claim()
  await answer()
  assert.deepEqual(waits(), [5, 5])
  clock.pass(3)
  assert.deepEqual(waits(), [2, 2])
  clock.pass(2)
  turns.open()
  void claim()
  void complete()
  await answer()
  assert.deepEqual(waits(), [5, 5], 'a claim that went along')
})

test('while work comes steadily claims go over the connection of the completions, unless they take long', async (t) => {
  const { turns, clock, over, claim, complete, answer } = scene(t)
  const claimTaking = async (ms: number) => {
    const claimed = claim()
    clock.pass(ms)
    await answer()
    await claimed
  }
  await claimTaking(1)
  turns.steadyMs = 4
  await claimTaking(6)
  await claimTaking(1)
  await claimTaking(1)
  turns.steadyMs = undefined
  await claimTaking(1)
  void complete()
  await answer()
  assert.deepEqual(over, ['claims', 'completions', 'claims', 'completions', 'claims', 'completions'])
})

test('while work comes steadily a completion leaves with the next claim, unless it may not be held', async (t) => {
  const scenery = scene(t)
  const { clock, turns, settled } = scenery
  turns.steadyMs = 18
  await leaveEvery(20, scenery)
  assert.equal(Math.round(turns.waitMs(false)), 18)
  const leaving = { held: await departure(scenery, performance.now() + 1), afterMs: 0 }
  for (; !leaving.held(); leaving.afterMs++) {
    clock.pass(1)
    await settled()
  }
  assert.equal(leaving.afterMs, 18)

  await leaveEvery(20, scenery)
  const keyed = await departure(scenery, Number.NEGATIVE_INFINITY)
  clock.pass(4)
  await settled()
  assert.equal(keyed(), false)
  clock.pass(1)
  await settled()
  assert.equal(keyed(), true)
})

test('a completion is held only while another statement is likely to come in time', async (t) => {
  const scenery = scene(t)
  const { clock, settled } = scenery
  await leaveEvery(10, scenery)
  clock.pass(5)
  assert.equal((await departure(scenery, performance.now() + 6))(), true, 'too short for the next one')
  const held = await departure(scenery, performance.now() + 15)
  clock.pass(14)
  await settled()
  assert.equal(held(), false)
  clock.pass(1)
  await settled()
  assert.equal(held(), true)

  await leaveEvery(1_000, scenery)
  clock.pass(5)
  assert.equal((await departure(scenery, performance.now() + 20))(), true, 'where jobs are few it leaves at once')
})

test('a claim, many completions, and one that may not be held end the wait of those that are', async (t) => {
  const scenery = scene(t)
  const { clock, turns, settled, claim } = scenery
  const enders = [() => void claim(), () => turns.ready(MANY), () => turns.ready(2)]
  for (const end of enders) {
    await leaveEvery(10, scenery)
    clock.pass(5)
    const held = await departure(scenery, performance.now() + 20)
    assert.equal(held(), false)
    turns.ready(2, performance.now() + 20)
    await settled()
    assert.equal(held(), false)
    end()
    clock.pass(0)
    await settled()
    assert.equal(held(), true)
  }
})

test('a completion may be held for a fifth of what its handler took, 20 ms at most, and nothing else may', () => {
  const until = (verb: string, tookMs: number | undefined, more: Partial<ClaimedJob> = {}) => {
    const endedAt = tookMs === undefined ? undefined : 1_000 + tookMs
    const claimed = { partitionKey: null, runFrom: null, ...more }
    const job = { startedAt: tookMs === undefined ? undefined : 1_000, endedAt, claimed }
    return heldUntil({ job, outcome: { verb } } as unknown as PendingOutcome) - (endedAt ?? 0)
  }
  const never = Number.NEGATIVE_INFINITY
  assert.deepEqual([until('complete', 10), until('complete', 100), until('complete', 60_000)], [2, 20, 20])
  assert.deepEqual([until('fail', 100), until('release', undefined)], [never, never])
  assert.equal(until('complete', 100, { partitionKey: 'key' }), never, 'its successor may wait')
  assert.equal(until('complete', 100, { runFrom: undefined }), never, 'a run of a workflow may wait')
})
