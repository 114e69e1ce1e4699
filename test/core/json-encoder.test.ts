import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { ValueNotStorableError } from '../../src/core/errors.ts'
import { safeText } from '../../src/core/safe-text.ts'
import { encodeInput, encodeSafely } from '../../src/core/storable.ts'
import { assertStorable, cyclic, nested } from '../support/any-value.ts'

function refusal(value: unknown, limits?: { bytes?: number; depth?: number }): ValueNotStorableError {
  try {
    encodeInput(value, limits)
  } catch (error) {
    assert.ok(error instanceof ValueNotStorableError, `threw ${safeText(error)}`)
    return error
  }
  return assert.fail('it was accepted')
}

class Money {
  amount = 1
}
class Row extends Array<number> {}

const refused: [what: string, value: unknown, path: string, reason: RegExp][] = [
  ['undefined alone', undefined, '$', /undefined/],
  ['undefined in an array', { a: [1, undefined] }, '$.a[1]', /undefined/],
  // biome-ignore lint/suspicious/noSparseArray: tests the hole
  ['a hole in an array', { a: [1, , 3] }, '$.a[1]', /undefined/],
  ['a function', { f: () => 1 }, '$.f', /function/],
  ['a symbol', [Symbol('x')], '$[0]', /symbol/],
  ['a symbol as a key', { a: { [Symbol('x')]: 1 } }, '$.a', /symbol as a key/],
  ['a BigInt', { items: [0, 1, 2, { price: 5n }] }, '$.items[3].price', /BigInt/],
  ['NaN', { 'odd key': Number.NaN }, '$["odd key"]', /NaN/],
  ['an infinity', [[Number.NEGATIVE_INFINITY]], '$[0][0]', /-Infinity/],
  ['a cycle', cyclic, '$.list[0]', /same object as \$, .* pass an id instead$/],
  ['NUL in a string', { a: 'x\0y' }, '$.a', /NUL/],
  ['NUL in a key', { 'x\0y': 1 }, '$["x\\u0000y"]', /NUL/],
  ['a lone high surrogate', ['\ud83d'], '$[0]', /surrogate/],
  ['a lone low surrogate', '\ude00 after', '$', /surrogate/],
  ['a lone surrogate in a key', { '\ud83d': 1 }, '$["\\ud83d"]', /surrogate/],
  ['a key named __proto__', JSON.parse('{"a":{"__proto__":{"admin":true}}}'), '$.a.__proto__', /__proto__/],
  ['a Map', { m: new Map([[1, 2]]) }, '$.m', /Map/],
  ['a Set', { s: new Set([1]) }, '$.s', /Set/],
  ['a RegExp', { r: /x/ }, '$.r', /RegExp/],
  ['an Error', { e: new TypeError('x') }, '$.e', /TypeError/],
  ['a typed array', { t: new Uint8Array(3) }, '$.t', /Uint8Array.*base64/],
  ['a Buffer, although it has a toJSON', { b: Buffer.from('x') }, '$.b', /Buffer.*base64/],
  ['an ArrayBuffer', { b: new ArrayBuffer(3) }, '$.b', /ArrayBuffer.*base64/],
  ['a WeakMap', { w: new WeakMap() }, '$.w', /WeakMap/],
  ['a Promise', { p: Promise.resolve() }, '$.p', /Promise/],
  ['a boxed number', { n: Object(1) }, '$.n', /Number/],
  ['an instance of a class', { price: new Money() }, '$.price', /Money loses its type/],
  ['an instance of a subclass of Array', { row: new Row(1, 2) }, '$.row', /Row loses its type/],
  ['an array with named properties', { m: Object.assign(['x'], { index: 4 }) }, '$.m', /named properties/],
  ['an invalid Date', { at: new Date(Number.NaN) }, '$.at', /Date is invalid/],
  ['a Date', { at: new Date(0) }, '$.at', /toISOString\(\)$/],
  ['a URL', [new URL('http://a.test/')], '$[0]', /pass url\.href$/],
  ['anything with a toJSON', { a: { toJSON: () => 1 } }, '$.a', /toJSON method.*pass what that returns$/],
]

for (const [what, value, path, reason] of refused) {
  test(`refused at its exact path: ${what}`, () => {
    const error = refusal(value)
    assert.equal(error.path, path)
    assert.match(error.reason, reason)
    assert.equal(error.code, 'VALUE_NOT_STORABLE')
    assert.ok(error.message.includes(path) && error.message.includes(error.reason))
    assertStorable(encodeSafely(value))
  })
}

test('an error thrown while reading a value is the cause of the refusal', () => {
  const boom = new Error('boom')
  const thrower = () => {
    throw boom
  }
  const cases: [value: object, path: string][] = [
    [{ a: [Object.defineProperty({}, 'toJSON', { get: thrower })] }, '$.a[0]'],
    [{ a: Object.defineProperty({}, 'b', { get: thrower, enumerable: true }) }, '$.a.b'],
    [{ a: new Proxy({}, { ownKeys: thrower }) }, '$.a'],
    [{ a: new Proxy({ b: 1 }, { get: (_, key) => (key === 'b' ? thrower() : undefined) }) }, '$.a.b'],
  ]
  for (const [value, path] of cases) {
    const error = refusal(value)
    assert.equal(error.path, path)
    assert.equal(error.cause, boom)
  }
})

test('plain values of every JSON kind are stored exactly as JSON.stringify writes them', () => {
  const bare = Object.assign(Object.create(null), { b: [[], {}], '': 'quote " slash \\ newline \n' })
  const value = { s: 'Zoë 😀 \u2028', n: [0, 1.5e300, 5e-324, -7], t: true, f: false, nil: null, bare }
  assert.equal(encodeInput(value), JSON.stringify(value))
  const foreign = runInNewContext('({ a: [1, { b: "x" }] })')
  assert.equal(encodeInput(foreign), '{"a":[1,{"b":"x"}]}')
})

test('undefined properties are left out, and minus zero is zero', () => {
  assert.equal(encodeInput({ a: undefined, b: 1, c: undefined }), '{"b":1}')
  assert.equal(encodeInput(-0), '0')
  assert.equal(encodeInput(null), 'null')
})

test('a result keeps what JSON makes of dates and toJSON', () => {
  assert.equal(encodeSafely({ at: new Date(0) }), '{"at":"1970-01-01T00:00:00.000Z"}')
  assert.equal(encodeSafely({ url: new URL('http://a.test/') }), '{"url":"http://a.test/"}')
  assert.equal(
    encodeSafely({ k: { toJSON: (key: string) => ({ key, toJSON: 'not called again' }) } }),
    '{"k":{"key":"k","toJSON":"not called again"}}',
  )
})

test('an object met twice side by side is not a cycle', () => {
  const shared = { a: 1 }
  assert.equal(encodeInput([shared, [shared], shared]), '[{"a":1},[{"a":1}],{"a":1}]')
})

test('each property is read once, so a second value cannot bypass the check', () => {
  let reads = 0
  const changing = {
    get a() {
      return ++reads === 1 ? 'clean' : 'dirty \0'
    },
  }
  assert.equal(encodeInput(changing), '{"a":"clean"}')
  assert.equal(reads, 1)
  let calls = 0
  encodeSafely({ a: { toJSON: () => ++calls } })
  assert.equal(calls, 1)
})

test('a value nested to the limit is stored and one level more is refused, however deep it goes', () => {
  assert.equal(encodeInput(nested(100)), JSON.stringify(nested(100)))
  for (const levels of [101, 100_000]) assert.equal(refusal(nested(levels)).path, `$${'[0]'.repeat(100)}`)
  assert.equal(refusal(nested(3), { depth: 2 }).path, '$[0][0]')
  assert.equal(encodeInput(nested(500), { depth: 500 }).length, 1001)
  assert.match(refusal(nested(100_000), { depth: Number.POSITIVE_INFINITY }).reason, /deeper than 500/)
})

test('size is counted in UTF-8 bytes of the JSON text, to the byte', () => {
  assert.equal(encodeInput('é', { bytes: 4 }), '"é"')
  assert.match(refusal('é', { bytes: 3 }).reason, /larger than 3 bytes/)
  assert.equal(encodeInput('x'.repeat(2 ** 20 - 2)).length, 2 ** 20)
  assert.equal(refusal('x'.repeat(2 ** 20 - 1)).path, '$')
  assert.match(refusal('\n', { bytes: 3 }).reason, /larger/, 'an escape counts as it is written')
})

test('reading stops as soon as the size limit is passed', () => {
  let read = false
  const value = {
    big: 'x'.repeat(10_000_000),
    get later() {
      read = true
      return 1
    },
  }
  assert.match(refusal(value).reason, /larger than 1048576 bytes/)
  assert.equal(JSON.parse(encodeSafely(value)).truncated, true)
  assert.equal(read, false)
  assert.match(refusal(`${value.big}\0`).reason, /larger/, 'it was read to its end')
  let reads = 0
  const endless = new Proxy([], {
    get: (_, key) => (key === 'length' ? 2 ** 50 : key === 'toJSON' ? undefined : ++reads),
  })
  assert.match(refusal(endless).reason, /larger/)
  assert.equal(JSON.parse(encodeSafely(endless)).truncated, true)
  assert.ok(reads < 2 ** 20)
})

test('encodeSafely keeps storable parts and names the replaced ones', () => {
  // biome-ignore format: a table
  const value = {
    text: 'a\0b\ud83d', 'k\0': 1, big: 2n ** 70n, huge: 1n << 9999n, nan: Number.NaN, inf: Number.NEGATIVE_INFINITY,
    fn: test, sym: Symbol('s'), map: new Map([['a', 1n]]), set: new Set([1, undefined]), re: /x/,
    bytes: Buffer.from('abc'), bad: new Date(Number.NaN), money: new Money(), gone: undefined, cyclic,
    get broken() { throw new Error('no') },
    trap: new Proxy({}, { ownKeys: () => { throw new Error('no') } }),
  }
  assert.deepEqual(JSON.parse(encodeSafely(value)), {
    text: 'a\ufffdb\ufffd',
    'k\ufffd': 1,
    big: '1180591620717411303424',
    huge: '[huge BigInt]',
    nan: 'NaN',
    inf: '-Infinity',
    fn: '[function test]',
    sym: '[symbol]',
    map: [['a', '1']],
    set: [1, null],
    re: '[RegExp]',
    bytes: '[Buffer of 3 bytes]',
    bad: '[invalid Date]',
    money: { amount: 1 },
    broken: '[unreadable]',
    trap: '[unreadable]',
    cyclic: { name: 'loop', list: ['[circular]'] },
  })
  assert.equal(encodeSafely(undefined), 'null')
  assert.equal(encodeSafely(JSON.parse('{"__proto__":1}')), '{"[__proto__]":1}')
  assert.equal(encodeSafely(nested(100_000), { depth: 2 }), '[["[too deep]"]]')
  assert.equal(JSON.parse(encodeSafely({ e: new RangeError('x') })).e.name, 'RangeError')
  assert.equal(JSON.parse(encodeSafely(new DOMException('x', 'AbortError'))).name, 'AbortError')
})

test('encodeSafely writes whole JSON even when the stack runs out half way', () => {
  const value = nested(90)
  const written = new Set<string>()
  const sink = (): void => {
    try {
      sink()
    } catch {}
    if (written.size < 40) written.add(encodeSafely(value))
  }
  assert.doesNotThrow(() => {
    try {
      sink()
    } catch {}
  })
  assert.ok(written.size > 5, 'the stack never ran out inside the walk')
  for (const text of written) assertStorable(text)
})

test('encodeSafely replaces a value that is too large by a small object with its start', () => {
  const marker = JSON.parse(encodeSafely({ rows: ['é'.repeat(600_000)] }))
  assert.deepEqual([marker.truncated, marker.limitBytes], [true, 1048576])
  assert.ok(marker.start.startsWith('{"rows":["éé') && marker.start.length <= 1000)
  assert.ok(Buffer.byteLength(encodeSafely('"😀'.repeat(9999), { bytes: 10 })) < 4096)
})
