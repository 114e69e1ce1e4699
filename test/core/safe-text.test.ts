import assert from 'node:assert/strict'
import { test } from 'node:test'
import { safeText } from '../../src/core/safe-text.ts'

test('safeText replaces one character by one, and cuts without splitting a pair', () => {
  assert.equal(safeText('a\0b\ud83dc😀'), 'a\ufffdb\ufffdc😀')
  for (let max = 0; max < 40; max++) {
    const text = safeText('😀'.repeat(30), max)
    assert.ok(text.length <= max && !text.includes('\ufffd'), `${max}: ${text}`)
    assert.ok(max < 13 || text.endsWith('… (truncated)'))
  }
  assert.equal(safeText('x'.repeat(40), 40).length, 40)
  assert.deepEqual(
    [safeText(Symbol('s')), safeText(null), safeText(Object.create(null))],
    ['Symbol(s)', 'null', '[unreadable]'],
  )
})
