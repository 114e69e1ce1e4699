import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Load } from '../../src/worker/load.ts'
import type { PendingOutcome } from '../../src/worker/pending-outcome.ts'

const report = (queue: string, verb = 'complete') =>
  ({ job: { claimed: { queue } }, outcome: { verb } }) as unknown as PendingOutcome

test('a beat carries the rates since the one before, of completed jobs and failed attempts', () => {
  const load = new Load({ held: 0, running: 0 })
  load.takeRates(1_000)
  for (let n = 0; n < 10; n++) load.note(report('mail'), 'completed')
  load.note(report('mail', 'fail'), 'pending')
  load.note(report('mail', 'fail'), 'dead_letter')
  for (const verb of ['snooze', 'release']) load.note(report('mail', verb), 'pending')
  load.note(report('late'), 'refused')
  load.note(report('__proto__'), 'completed')
  assert.equal(JSON.stringify(load.takeRates(5_000)), '{"mail":[2.5,0.5],"__proto__":[0.25,0]}')
  assert.deepEqual(load.takeRates(10_000), {})
})

test('of a worker with many queues the busiest fifty are in a beat', () => {
  const load = new Load({ held: 0, running: 0 })
  for (let queue = 1; queue <= 60; queue++) for (let n = 0; n < queue; n++) load.note(report(`q${queue}`), 'completed')
  const names = Object.keys(load.takeRates())
  assert.deepEqual([names.length, names[0], names.at(-1)], [50, 'q60', 'q11'])
})
