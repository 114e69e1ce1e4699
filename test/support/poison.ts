// Unusual values.

export const MB = 1024 * 1024
export const LONE = '\ud800'

export function throwing(): never {
  throw new Error('you cannot look at this')
}

export const trap = (...names: (keyof ProxyHandler<object>)[]) =>
  Object.fromEntries(names.map((name) => [name, throwing]))
export const ALL_TRAPS = trap('get', 'getPrototypeOf', 'ownKeys', 'has', 'getOwnPropertyDescriptor')

export function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

export function cyclic(): object {
  const value: Record<string, unknown> = { name: 'loop' }
  value.self = value
  return value
}

/** Values that neither JSON nor Postgres can hold unchanged. */
export const UNSTORABLE: Record<string, () => unknown> = {
  undefined: () => undefined,
  NUL: () => 'a\0b',
  'a NUL in a key': () => ({ 'a\0': 1 }),
  'half a surrogate pair': () => ({ deep: [LONE] }),
  'ten megabytes': () => 'x'.repeat(10 * MB),
  'ten megabytes of emoji': () => ['📬'.repeat(3 * MB)],
  'ten thousand levels': () => nested(10_000),
  BigInt: () => ({ n: 10n }),
  NaN: () => Number.NaN,
  Infinity: () => [Number.NEGATIVE_INFINITY],
  'a function': () => throwing,
  'a symbol': () => Symbol('x'),
  'an invalid date': () => new Date(Number.NaN),
  'a cycle': cyclic,
  'a getter that throws': () => Object.defineProperty({}, 'a', { get: throwing, enumerable: true }),
  'a toJSON that throws': () => ({ toJSON: throwing }),
  'a toJSON that returns itself': () => ({
    toJSON() {
      return this
    },
  }),
  'a proxy that throws': () => ({ p: new Proxy({}, ALL_TRAPS) }),
  'a revoked proxy': () => ({ p: revoked() }),
  'an endless array': () => ({ a: new Array(2 ** 31) }),
  __proto__: () => JSON.parse('{"__proto__": {"polluted": true}}'),
}
