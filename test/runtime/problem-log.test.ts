import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogEntry } from '../../src/core/log.ts'
import { EventHub } from '../../src/runtime/event-hub.ts'
import { ProblemLog } from '../../src/runtime/problem-log.ts'

/** A manual clock, and the lines logged since the last call. */
function problems() {
  let now = 1_000
  const logged: LogEntry[] = []
  return {
    of: new ProblemLog(
      (entry) => logged.push(entry),
      () => now,
    ),
    pass: (ms: number) => {
      now += ms
    },
    lines: () => logged.splice(0).map(({ level, message }) => `${level} ${message}`),
  }
}

test('a problem is logged when its text changes, and otherwise every half a minute', () => {
  const { of, pass, lines } = problems()
  const has = (message: string, doing = 'receiving') =>
    of.requestFailed(doing, `trouble while ${doing}`, new Error(message))
  has('refused')
  has('refused')
  assert.deepEqual(lines(), ['warn trouble while receiving; trying again: refused'])
  pass(29_999)
  has('refused')
  assert.deepEqual(lines(), [])
  pass(1)
  has('refused')
  has('reset')
  assert.deepEqual(lines(), [
    'warn trouble while receiving; trying again: refused',
    'warn trouble while receiving; trying again: reset',
  ])
  has('reset', 'deleting')
  assert.equal(lines().length, 1)
})

test('the end of a problem is logged once, with its duration, if the problem was', () => {
  const { of, pass, lines } = problems()
  const has = () => of.requestFailed('asking', 'trouble', new Error('gone'))
  const fine = () => of.over('asking', 'the database answers')
  fine()
  assert.deepEqual(lines(), [])
  has()
  pass(26_000)
  has()
  lines()
  fine()
  fine()
  assert.deepEqual(lines(), ['warn the database answers again after 26 s'])

  // It comes and goes, and is logged no more often than if it stayed.
  has()
  fine()
  pass(3_000)
  has()
  fine()
  assert.deepEqual(lines(), [])
  pass(10_000)
  has()
  assert.deepEqual(lines(), ['warn trouble; trying again: gone'])
  pass(100)
  fine()
  assert.deepEqual(lines(), ['warn the database answers again after 1 s'])
})

test('a chore that fails is logged by name, without its message, and so are rows that exhausted their attempts', () => {
  const { of, pass, lines } = problems()
  of.choreFailed('recovery of doc', new Error('jane@example.com'))
  pass(61_000)
  of.choreDid('recovery of doc', { reclaimed: 3, givenUp: 0 })
  of.choreDid('recovery of doc', { reclaimed: 0, givenUp: 2 })
  of.choreDid('sweeping', { givenUp: 1 })
  of.choreDid('sweeping', undefined as never)
  assert.deepEqual(lines(), [
    'warn trouble with the chore "recovery of doc"',
    'warn the chore "recovery of doc" works again after 61 s',
    'warn the chore "recovery of doc" found 2 rows that have exhausted their attempts',
    'warn the chore "sweeping" found 1 row that has exhausted its attempts',
  ])
})

test('a stop logs how long handlers have to end', () => {
  const logged: string[] = []
  const hub = new EventHub(({ message }) => logged.push(message), 'trouble:')
  hub.stopping(2, 25_000, true)
  hub.stopping(1, 1_500, false, 'worker a is ')
  hub.stopping(0, 1_500, false)
  assert.deepEqual(logged, [
    'stopping: 2 handlers have up to 25 s to end; a second signal aborts them now',
    'worker a is stopping: 1 handler has up to 1.5 s to end',
  ])
})
