import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describeError } from '../../src/core/error-description.ts'
import { ValueNotStorableError } from '../../src/core/errors.ts'
import { safeText } from '../../src/core/safe-text.ts'
import { encodeInput, encodeSafely } from '../../src/core/storable.ts'

/** The requirements of jsonb, checked without any of the code under test. */
function assertStorable(text: string): void {
  const walk = (value: unknown): void => {
    if (typeof value === 'string') {
      assert.ok(!value.includes('\0'), 'NUL')
      encodeURIComponent(value) // throws on a lone surrogate
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, child] of Object.entries(value)) {
        assert.notEqual(key, '__proto__')
        walk(key)
        walk(child)
      }
    }
  }
  walk(JSON.parse(text))
}

function refusal(value: unknown, limits?: { bytes?: number; depth?: number }): ValueNotStorableError {
  try {
    encodeInput(value, limits)
  } catch (error) {
    assert.ok(error instanceof ValueNotStorableError, `threw ${safeText(error)}`)
    return error
  }
  return assert.fail('it was accepted')
}

function nested(levels: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = [value]
  return value
}

const cyclic: Record<string, unknown> = { name: 'loop' }
cyclic.list = [cyclic]
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
  ['a cycle', cyclic, '$.list[0]', /same object as \$$/],
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

test('describeError returns name, message, code, stack, causes and the errors of an AggregateError', () => {
  class PaymentError extends Error {
    code = 'E_PAY\0'
  }
  const inner = Object.assign(new TypeError('inner \0'), { cause: 'a string' })
  const described = describeError(new PaymentError('outer', { cause: inner }))
  assert.deepEqual([described.name, described.message, described.code], ['PaymentError', 'outer', 'E_PAY\ufffd'])
  assert.match(described.stack ?? '', /storable\.test/)
  assert.deepEqual([described.cause?.name, described.cause?.message], ['TypeError', 'inner \ufffd'])
  assert.deepEqual(described.cause?.cause, { name: 'NonError', message: 'a string' })
  const many = describeError(new AggregateError(Array.from({ length: 30 }, (_, i) => new Error(`e${i}`))))
  assert.deepEqual(
    many.errors?.map((error) => error.message),
    Array.from({ length: 10 }, (_, i) => `e${i}`),
  )
})

test('describeError describes a thrown value that is not an Error', () => {
  const messageOf = (thrown: unknown) => describeError(thrown).message
  assert.deepEqual(
    [messageOf('x'), messageOf(null), messageOf(undefined), messageOf(5n)],
    ['x', 'null', 'undefined', '5'],
  )
  assert.equal(messageOf({ status: 500, error: new TypeError('t') }), '{"status":500,"error":"[TypeError]"}')
  assert.equal(messageOf({ message: 'like an error' }), 'like an error')
})

test('describeError is bounded for any value, and ends on a cycle', () => {
  const loop: Error = new Error('loop')
  loop.cause = new Error('back', { cause: loop })
  assert.equal(describeError(loop).cause?.cause?.message, '[circular]')
  const tree = (depth: number): Error =>
    Object.assign(
      new AggregateError(depth === 0 ? [] : Array.from({ length: 12 }, () => tree(depth - 1)), 'é'.repeat(20_000)),
      { cause: 'é'.repeat(20_000) },
    )
  const described = describeError(tree(3))
  assert.equal(described.message.length, 8192)
  assert.ok(Buffer.byteLength(JSON.stringify(described)) < 400_000)
  let chain: unknown
  for (let i = 0; i < 50; i++) chain = new Error(`${i}`, { cause: chain })
  let depth = 0
  for (let at = describeError(chain); at.cause; at = at.cause) depth++
  assert.equal(depth, 5)
})

// Any sequence of UTF-16 units: most of what Postgres refuses is in here.
const units = fc.array(fc.oneof(fc.constantFrom(0, 0x22, 0x5c, 0xd83d, 0xde00), fc.nat(0xffff)), { maxLength: 6 })
const anyText = units.map((codes) => String.fromCharCode(...codes))
// biome-ignore format: one list of switches
const anything = fc.anything({
  key: fc.oneof(anyText, fc.constantFrom('__proto__', 'toJSON', 'message', 'cause', 'stack', 'length')),
  values: [anyText, fc.double(), fc.integer(), fc.constantFrom(null, undefined, true, false, Symbol('s'), Boolean, -0)],
  withBigInt: true, withBoxedValues: true, withDate: true, withMap: true, withSet: true, withNullPrototype: true,
  withObjectString: true, withSparseArray: true, withTypedArray: true,
})

const thrower = () => {
  throw revoked()
}
const traps = Object.fromEntries(Object.getOwnPropertyNames(Reflect).map((trap) => [trap, thrower]))
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
// biome-ignore format: one per line
const hostile: unknown[] = [
  revoked(),
  new Proxy({}, traps),
  new Proxy([], traps),
  new Proxy(() => 1, traps),
  new Proxy(new Error('x'), traps),
  { toString: thrower, toJSON: thrower, [Symbol.toPrimitive]: thrower },
  { get message() { return thrower() } },
  Object.defineProperties(new Error(), { stack: { get: thrower }, message: { get: thrower }, name: { get: thrower } }),
  Object.assign(new Error('x'), { cause: revoked(), errors: revoked(), code: revoked(), name: revoked() }),
  Object.assign(new Error('x'), { errors: { length: 2 ** 53, get 0() { return thrower() } } }),
  Object.assign(new Map([[1, revoked()]]), { [Symbol.iterator]: thrower }),
  Object.defineProperty(() => 1, 'name', { get: thrower }),
  Object.setPrototypeOf([1], null),
  { get constructor() { return thrower() } },
  cyclic,
  nested(100_000),
  Symbol('\0'),
]
const knot: { error?: unknown } = {}
knot.error = new Error('knot', { cause: knot })
hostile.push(knot, knot.error)

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
