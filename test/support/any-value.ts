// Values that are hard to store, and a check of what was made of them.
import assert from 'node:assert/strict'
import fc from 'fast-check'

/** The requirements of jsonb, checked without any of the code under test. */
export function assertStorable(text: string): void {
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

export function nested(levels: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < levels; i++) value = [value]
  return value
}

export const cyclic: Record<string, unknown> = { name: 'loop' }
cyclic.list = [cyclic]

// Any sequence of UTF-16 units: most of what Postgres refuses is in here.
const units = fc.array(fc.oneof(fc.constantFrom(0, 0x22, 0x5c, 0xd83d, 0xde00), fc.nat(0xffff)), { maxLength: 6 })
const anyText = units.map((codes) => String.fromCharCode(...codes))
// biome-ignore format: one list of switches
export const anything = fc.anything({
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
export const hostile: unknown[] = [
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
