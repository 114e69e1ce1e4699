// `leasehold redrive --rate` keeps to its rate, and ends between two batches when it is asked to. No time passes but by the test.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Fatal, handle, kind } from '../../src/index.ts'
import { commandUntil } from '../support/command.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { count, scene } from '../support/worker.ts'

const mail = kind<number>('mail', { maxAttempts: 1 })
const refuse = handle(mail, () => {
  throw new Fatal('no such address')
})

/** A redrive of so many dead letters, which pauses after each batch. */
async function redriving(t: TestContext, letters: number, rate: number) {
  const { db, lh } = await scene(t)
  await lh.enqueueMany(
    mail,
    Array.from({ length: letters }, (_, input) => ({ input })),
  )
  await lh.drain([refuse])
  const clock = movableTimers(t, { runByThemselves: false, stands: true })
  const asked = new AbortController()
  let isOver = false
  const ended = commandUntil(asked.signal, db.url, 'redrive', '--rate', String(rate), '--yes').finally(() => {
    isOver = true
  })
  const left = () => count(db, 'from leasehold.dead_letter')
  /** Resolves once it sleeps for so long. Fails if it ends instead. */
  const pauses = async (ms: number) => {
    await until(`it pauses for ${ms} ms`, () => isOver || clock.waiting().includes(ms))
    assert.equal(isOver, false, 'it ended without a pause')
  }
  return { clock, asked, ended, left, pauses }
}

test('redrive with a rate waits a second after each batch of so many', async (t) => {
  const { clock, ended, left, pauses } = await redriving(t, 5, 2)
  await pauses(1_000)
  assert.equal(await left(), 3)
  clock.pass(999)
  await pauses(1)
  assert.equal(await left(), 3)
  clock.pass(1)
  await pauses(1_000)
  assert.equal(await left(), 1)
  clock.pass(1_000)
  const { code, out } = await ended
  assert.deepEqual([code, out, await left()], [0, 'Redriven: 5 of 5.\n', 0])
})

test('a rate above the size of a batch makes the pauses shorter', async (t) => {
  const { clock, ended, left, pauses } = await redriving(t, 501, 1_000)
  await pauses(500)
  assert.equal(await left(), 1)
  clock.pass(500)
  assert.equal((await ended).out, 'Redriven: 501 of 501.\n')
})

test('a redrive that is asked to end does so between two batches, with exit code 1', async (t) => {
  const { asked, ended, left, pauses } = await redriving(t, 5, 2)
  await pauses(1_000)
  asked.abort()
  const { code, out } = await ended
  assert.deepEqual([code, out, await left()], [1, 'Redriven: 2 of 5.\n', 3])
})
