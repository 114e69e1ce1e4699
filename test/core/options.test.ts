import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkOptions } from '../../src/core/options.ts'

const KNOWN = ['concurrency', 'lease', 'poll', 'tx', 'idempotencyKey']

test('known options pass, also when they are undefined, and so does having none', () => {
  checkOptions('worker', undefined, KNOWN)
  checkOptions('worker', {}, KNOWN)
  checkOptions('worker', { lease: 1, tx: undefined }, KNOWN)
  checkOptions('worker', Object.create({ inherited: 1 }), KNOWN)
})

test('a misspelt option is refused, with the likely name', () => {
  const meant: [string, string][] = [
    ['concurency', 'concurrency'],
    ['Concurrency', 'concurrency'],
    ['idempotencykey', 'idempotencyKey'],
    ['idempotency_key', 'idempotencyKey'],
    ['leas', 'lease'],
    ['pol', 'poll'],
    ['txn', 'tx'],
    ['TX', 'tx'],
  ]
  for (const [given, known] of meant) {
    assert.throws(() => checkOptions('worker', { [given]: 1 }, KNOWN), {
      code: 'INVALID_OPTION',
      option: `worker.${given}`,
      message: `The option worker.${given} cannot be used: there is no such option; did you mean ${known}?`,
    })
  }
})

test('an unlike option gets the list of known ones', () => {
  assert.throws(
    () => checkOptions('worker', { colour: 'blue' }, KNOWN),
    /no such option; known are concurrency, lease, poll, tx, idempotencyKey\.$/,
  )
})

test('the suggestion is the nearest name, not the first', () => {
  assert.throws(() => checkOptions('x', { keepKeys: 1 }, ['keep', 'keepKey', 'keepKeyFor']), /did you mean keepKey\?/)
})

test('a value that is not an object of options is refused', () => {
  for (const given of [null, 1, 'a', true, [], () => {}, 10n, Symbol('x')]) {
    assert.throws(
      () => checkOptions('worker', given, KNOWN),
      { code: 'INVALID_OPTION', option: 'worker' },
      String(given),
    )
  }
})

test('inherited names of objects are not options', () => {
  for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
    const given = Object.defineProperty({}, name, { value: 1, enumerable: true })
    assert.throws(() => checkOptions('worker', given, KNOWN), { code: 'INVALID_OPTION' }, name)
  }
})
