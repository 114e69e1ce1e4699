// The promise, for any value at all.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { describeError } from '../../src/core/error-description.ts'
import { ValueNotStorableError } from '../../src/core/errors.ts'
import { safeText } from '../../src/core/safe-text.ts'
import { encodeInput, encodeSafely } from '../../src/core/storable.ts'
import { anything, assertStorable, hostile } from '../support/any-value.ts'

/** The one JSON value that JSON does not keep. */
function withoutMinusZero(value: unknown): unknown {
  if (typeof value === 'number') return value + 0
  if (Array.isArray(value)) return value.map(withoutMinusZero)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, withoutMinusZero(child)]))
}

test('a value that encodeInput accepts reads back equal, for any JSON value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6, stringUnit: 'grapheme' }), (value) => {
      fc.pre(!JSON.stringify(value).includes('__proto__'))
      assert.equal(encodeInput(value), JSON.stringify(value))
      assert.deepEqual(JSON.parse(encodeInput(value)), withoutMinusZero(value))
    }),
  )
})

test('encodeInput either refuses a value with its typed error or writes the JSON that Postgres stores', () => {
  let accepted = 0
  const check = (value: unknown) => {
    let text: string
    try {
      text = encodeInput(value)
    } catch (error) {
      return assert.ok(error instanceof ValueNotStorableError)
    }
    accepted++
    assert.equal(text, JSON.stringify(value))
    assertStorable(text)
    // A value that needs no repair is not changed.
    assert.equal(encodeSafely(value), text)
  }
  hostile.forEach(check)
  fc.assert(fc.property(anything, check), { numRuns: 3000 })
  assert.ok(accepted > 300, `only ${accepted} values were accepted: the generator no longer tests that half`)
})

test('recording never fails: encodeSafely, describeError and safeText accept any value and return storable text', () => {
  const check = (value: unknown) => {
    assertStorable(encodeSafely(value))
    assertStorable(encodeSafely(value, { bytes: 5, depth: 1 }))
    assertStorable(encodeSafely({ a: [value, 1] }))
    assertStorable(JSON.stringify(describeError(value)))
    assertStorable(
      JSON.stringify(describeError(Object.assign(new Error(), { cause: value, errors: [value], message: value }))),
    )
    for (const max of [0, 3, 20, 8192]) assertStorable(JSON.stringify(safeText(value, max)))
    assert.equal(encodeInput(describeError(value)), JSON.stringify(describeError(value)))
  }
  hostile.forEach(check)
  fc.assert(fc.property(anything, check), { numRuns: 3000 })
})
