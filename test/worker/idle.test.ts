// What an idle worker costs the database: polls, beats, and housekeeping.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { next, scene, statements, unanswered } from '../support/worker.ts'

const STEP_MS = 100
const SECONDS = 40

test('an idle worker that is alone sends at most two statements a second', async (t) => {
  const { db, worker } = await scene(t)
  const timers = movableTimers(t, { stands: true, runByThemselves: false })
  t.mock.method(Math, 'random', () => 0.5) // A poll is a second, neither more nor less.
  const [names, inFlight] = [statements(t), unanswered(t)]
  let now = Date.now()
  await db.clock.stopAt(new Date(now))
  const pass = async () => {
    now += STEP_MS
    await db.clock.stopAt(new Date(now))
    timers.pass(STEP_MS)
    await until('it waits', () => inFlight() === 0)
  }
  const busy = worker([handle(kind('task'), () => {}), handle(kind('other'), () => {})])
  await next(busy, 'wakeup')
  // The first turn of housekeeping, and the second test of the listener.
  for (let ms = 0; ms < 5_000; ms += STEP_MS) await pass()
  names.length = 0
  for (let ms = 0; ms < SECONDS * 1_000; ms += STEP_MS) await pass()
  const counts = Object.fromEntries(
    [...new Set(names)].map((name) => [name, names.filter((one) => one === name).length]),
  )
  assert.ok(names.length <= 2 * SECONDS, `${names.length} in ${SECONDS} s: ${JSON.stringify(counts)}`)
  t.diagnostic(`${names.length} in ${SECONDS} s: ${JSON.stringify(counts)}`)
  assert.ok(counts['worker.beat']! >= SECONDS / 5 - 1, 'a beat every five seconds')
})
