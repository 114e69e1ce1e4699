import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { BatchDelay } from '../../src/runtime/batch-delay.ts'
import { Batcher } from '../../src/runtime/batcher.ts'
import { movableTimers } from '../support/movable-clock.ts'

test('a batch not worth waiting for starts once, at the end of the turn', async () => {
  let starts = 0
  const gathering = new BatchDelay(
    () => starts++,
    () => false,
  )
  gathering.nudge()
  gathering.nudge()
  assert.equal(starts, 0)
  await setImmediate()
  assert.equal(starts, 1)
})

test('a batch worth waiting for starts by itself when nothing more arrives', async () => {
  await new Promise<void>((resolve) => new BatchDelay(resolve, () => true).nudge())
})

test('a batch starts as soon as waiting is not worth it, and only once', async (t) => {
  const clock = movableTimers(t, { runByThemselves: false })
  let starts = 0
  let isMoreToCome = true
  const gathering = new BatchDelay(
    () => starts++,
    () => isMoreToCome,
  )
  gathering.nudge()
  await setImmediate()
  isMoreToCome = false
  gathering.nudge()
  await setImmediate()
  assert.equal(starts, 1)
  clock.pass(1_000)
  assert.equal(starts, 1)
})

test('small requests of several turns go together while more may come, and full batches at once', async () => {
  const sent: number[][] = []
  let isMoreToCome = true
  const batches = new Batcher<number>({
    send: async (items) => {
      sent.push([...items])
      return []
    },
    most: 10,
    isAboutOneEntry: () => false,
    isWanted: () => true,
    isMoreToCome: () => isMoreToCome,
    onAnswered: () => {},
    onProblem: (error) => assert.fail(String(error)),
  })
  const ten = Array.from({ length: 10 }, (_, item) => batches.add(item))
  assert.deepEqual(await Promise.all(ten), new Array(10).fill(true))
  assert.equal(sent.length, 1)
  const first = batches.add(10)
  isMoreToCome = false
  const second = batches.add(11)
  await Promise.all([first, second])
  assert.deepEqual(sent[1], [10, 11])
})
