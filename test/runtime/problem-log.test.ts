import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogEntry } from '../../src/core/log.ts'
import { stoppingWords, ProblemLog } from '../../src/runtime/problem-log.ts'

/** A clock by hand, and what was logged since it was last asked for. */
function troubles() {
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
    said: () => logged.splice(0).map(({ level, message }) => `${level} ${message}`),
  }
}

test('trouble is logged when its text changes, and otherwise every half a minute', () => {
  const { of, pass, said } = troubles()
  const has = (message: string, doing = 'receiving') =>
    of.withRequest(doing, `trouble while ${doing}`, new Error(message))
  has('refused')
  has('refused')
  assert.deepEqual(said(), ['warn trouble while receiving; trying again: refused'])
  pass(29_999)
  has('refused')
  assert.deepEqual(said(), [])
  pass(1)
  has('refused')
  has('reset')
  assert.deepEqual(said(), [
    'warn trouble while receiving; trying again: refused',
    'warn trouble while receiving; trying again: reset',
  ])
  has('reset', 'deleting')
  assert.equal(said().length, 1)
})

test('that it is over is logged once, with how long it was, and only if it was told of', () => {
  const { of, pass, said } = troubles()
  const has = () => of.withRequest('asking', 'trouble', new Error('gone'))
  const fine = () => of.over('asking', 'the database answers')
  fine()
  assert.deepEqual(said(), [])
  has()
  pass(26_000)
  has()
  said()
  fine()
  fine()
  assert.deepEqual(said(), ['warn the database answers again after 26 s'])

  // It comes and goes, and that is told no more often than if it stayed.
  has()
  fine()
  pass(3_000)
  has()
  fine()
  assert.deepEqual(said(), [])
  pass(10_000)
  has()
  assert.deepEqual(said(), ['warn trouble; trying again: gone'])
  pass(100)
  fine()
  assert.deepEqual(said(), ['warn the database answers again after 1 s'])
})

test('a chore that fails is named, its author is not quoted, and rows that nobody tries any more are a warning', () => {
  const { of, pass, said } = troubles()
  of.withChore('recovery of doc', new Error('jane@example.com'))
  pass(61_000)
  of.choreDid('recovery of doc', { takenBack: 3, givenUp: 0 })
  of.choreDid('recovery of doc', { takenBack: 0, givenUp: 2 })
  of.choreDid('sweeping', { givenUp: 1 })
  of.choreDid('sweeping', undefined as never)
  assert.deepEqual(said(), [
    'warn trouble with the chore "recovery of doc"',
    'warn the chore "recovery of doc" works again after 61 s',
    'warn the chore "recovery of doc" gave up on 2 rows, which nobody tries any more',
    'warn the chore "sweeping" gave up on a row, which nobody tries any more',
  ])
})

test('how long stopping may take is said in a sentence', () => {
  assert.equal(
    stoppingWords(2, 25_000, true),
    'stopping: 2 handlers have up to 25 s to end; a second signal aborts them now',
  )
  assert.equal(stoppingWords(1, 1_500, false), 'stopping: 1 handler has up to 1.5 s to end')
})
