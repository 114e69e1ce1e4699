// A queue is declared once, like a kind, and checked there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type QueueOptions, queue } from '../../src/core/queue.ts'
import { checkRetention } from '../../src/core/retention.ts'

test('a queue has defaults, and cannot be changed afterwards', () => {
  const mail = queue('mail')
  assert.deepEqual(mail, { name: 'mail', ordered: false, fair: false, onDeadLetter: 'block', wakeUp: true, ring: null })
  assert.throws(() => Object.assign(mail, { ordered: true }), TypeError)
})

test('queue() keeps every option', () => {
  for (const onDeadLetter of ['block', 'skip', 'park'] as const) {
    const options = { ordered: true, fair: false, onDeadLetter, wakeUp: false, ring: 'rendezvous' as const }
    assert.deepEqual(queue('mail', options), { name: 'mail', ...options })
  }
})

test('queue() refuses an invalid option, with its name', () => {
  const bad: [string, object][] = [
    ['queue("x").ordered', { ordered: 'yes' }],
    ['queue("x").ordered', { ordered: null }],
    ['queue("x").fair', { fair: 'yes' }],
    ['queue("x").fair', { ordered: true, fair: true }],
    ['queue("x").onDeadLetter', { onDeadLetter: 'stop' }],
    ['queue("x").onDeadLetter', { onDeadLetter: true }],
    ['queue("x").wakeUp', { wakeUp: 'no' }],
    ['queue("x").order', { order: true }],
    ['queue("x").maxAttempts', { maxAttempts: 5 }],
  ]
  for (const [option, options] of bad) {
    const call = () => queue('x', options as QueueOptions)
    assert.throws(call, { code: 'INVALID_OPTION', option }, JSON.stringify(options))
  }
  for (const name of ['', 'x'.repeat(201), 'a\0', '\ud800', undefined, null, 7, {}]) {
    assert.throws(() => queue(name as string), { code: 'INVALID_OPTION', option: 'name' })
  }
})

test('retention takes any subset of its durations', () => {
  assert.deepEqual(checkRetention('r', undefined), {})
  assert.deepEqual(checkRetention('r', { attempts: '1d' }), { attempts: 86_400_000 })
  const all = { deadLetters: '90d', attempts: 0, effects: '1h', workers: '1h' } as const
  const ms = { deadLetters: 7_776_000_000, attempts: 0, effects: 3_600_000, workers: 3_600_000 }
  assert.deepEqual(checkRetention('r', all), ms)
})

test('retention refuses values that are not durations, and keeps workers for at least an hour', () => {
  const bad: [string, unknown][] = [
    ['r.attempts', { attempts: 'soon' }],
    ['r.deadLetters', { deadLetters: -1 }],
    ['r.effects', { effects: false }],
    ['r.workers', { workers: '59m' }],
    ['r.deadLetter', { deadLetter: '1d' }],
    ['r', '7d'],
  ]
  for (const [option, retention] of bad) {
    assert.throws(() => checkRetention('r', retention as object), { code: 'INVALID_OPTION', option })
  }
})
