/** JSON text for a jsonb column: refuses a value that would return changed, or repairs it. */
import { types } from 'node:util'
import { ValueNotStorableError } from './errors.ts'
import { hasEnumerableSymbol, isPlain } from './plain.ts'
import { className, read } from './reading.ts'
import { LONE_SURROGATE, NEEDS_CARE, replaceUnstorable, safeText } from './safe-text.ts'

export interface StorableLimits {
  /** Of the JSON text, in UTF-8. Default 1 MiB, at most 32 MiB. */
  readonly bytes?: number | undefined
  /** Levels of arrays and objects. Default 100, at most 500. */
  readonly depth?: number | undefined
}

const DEFAULT_BYTES = 1024 * 1024
// jsonb can take six times the space of its text ([1,1,…]), and Postgres stops at 256 MiB of jsonb.
const MAX_BYTES = 32 * 1024 * 1024
const DEFAULT_DEPTH = 100
// The walk is recursive; this many levels fit a stack that is already half used.
const MAX_DEPTH = 500

/** The inputs of a kind have the same keys, so what was found about a short one is kept. */
const PLAIN_KEYS = new Map<string, string>()
const KEYS_KEPT = 1_000
const LONGEST_KEY_KEPT = 50

/** Throws a ValueNotStorableError that names the path. */
export function encodeExactly(value: unknown, limits?: StorableLimits): string {
  return new Encoder(limits).encode(value)
}

/** Replaces values that cannot be stored, and errors by the result of `ofError`. Never throws. */
export function encodeRepaired(value: unknown, ofError: (error: object) => unknown, limits?: StorableLimits): string {
  const encoder = new Encoder(limits, ofError)
  try {
    return encoder.encode(value)
  } catch {
    if (encoder.stop === undefined) return '"[unreadable]"'
    // Reading stopped at the limit, so the true size is unknown. This stays under 4 kB for any limit.
    const start = replaceUnstorable(encoder.pieces.join('').slice(0, 1000))
    return JSON.stringify({ truncated: true, limitBytes: encoder.maxBytes, start })
  }
}

/** The limit, in bytes, if encodeRepaired() has stored only the start of a value; else undefined. */
export function truncatedAt(stored: unknown): number | undefined {
  if (typeof stored !== 'object' || stored === null) return undefined
  const { truncated, limitBytes, start, ...rest } = stored as Record<string, unknown>
  if (truncated !== true || typeof start !== 'string' || Object.keys(rest).length > 0) return undefined
  return typeof limitBytes === 'number' ? limitBytes : undefined
}

/**
 * Checks and writes in one walk. A check followed by JSON.stringify would read every getter, toJSON and proxy twice,
 * and the second answer need not be the first.
 */
class Encoder {
  /** Set: repairs, and writes errors by this function. Undefined: refuses values that cannot be stored. */
  readonly ofError: ((error: object) => unknown) | undefined
  readonly maxBytes: number
  readonly maxDepth: number
  /** Set once the walk must end; nothing is repaired after that. */
  stop: Error | undefined
  /** The output so far, in pieces: appending to one long string leaves a tree of strings for the collector. */
  pieces: string[] = []
  length = 0
  // Entries beyond the current depth are left over from earlier branches and never read.
  readonly path: (string | number)[] = []
  readonly ancestors: object[] = []

  constructor(limits: StorableLimits | undefined, ofError?: (error: object) => unknown) {
    this.ofError = ofError
    this.maxBytes = within(limits?.bytes, DEFAULT_BYTES, MAX_BYTES)
    this.maxDepth = within(limits?.depth, DEFAULT_DEPTH, MAX_DEPTH)
  }

  get refuses(): boolean {
    return this.ofError === undefined
  }

  encode(value: unknown): string {
    this.value(value, 0)
    const text = this.pieces.join('')
    // A UTF-16 unit takes one to three bytes, so an exact count is seldom needed.
    if (text.length * 3 > this.maxBytes && Buffer.byteLength(text) > this.maxBytes) this.tooLarge()
    return text
  }

  write(piece: string): void {
    this.pieces.push(piece)
    this.length += piece.length
  }

  value(value: unknown, depth: number, afterToJSON = false): void {
    if (typeof value === 'string') {
      this.write(this.quoted(value, depth))
    } else if (typeof value === 'number') {
      if (Number.isFinite(value)) this.write(String(value))
      else this.bad(depth, `${value} is not a JSON number; pass null or a string`, String(value))
    } else if (typeof value === 'boolean' || value === null) {
      this.write(String(value))
    } else if (typeof value === 'object') {
      this.object(value, depth, afterToJSON)
    } else if (value === undefined) {
      this.bad(depth, 'undefined has no JSON form; pass null', null)
    } else if (typeof value === 'bigint') {
      this.bad(depth, 'a BigInt has no JSON form; pass String(value)', safeText(value))
    } else if (typeof value === 'symbol') {
      this.bad(depth, 'a symbol has no JSON form; pass a string', '[symbol]')
    } else {
      const name = read(value as object, 'name')
      this.bad(depth, 'a function has no JSON form; pass data', `[function ${safeText(name, 200)}]`)
    }
  }

  object(value: object, depth: number, afterToJSON: boolean): void {
    const { length } = this
    const pieces = this.pieces.length
    try {
      const ancestor = this.ancestors.indexOf(value)
      if (ancestor >= 0 && ancestor < depth) {
        this.bad(
          depth,
          `it is the same object as ${this.pathTo(ancestor)}, which contains it; pass an id instead`,
          '[circular]',
        )
      } else if (depth >= this.maxDepth) {
        this.bad(depth, `it is nested deeper than ${this.maxDepth} levels; flatten it`, '[too deep]')
      } else {
        this.ancestors[depth] = value
        this.container(value, depth, afterToJSON)
      }
    } catch (thrown) {
      // A trap or a toJSON threw, or the stack overflowed: discard the output of this object.
      if (this.stop !== undefined) throw this.stop
      this.pieces.length = pieces
      this.length = length
      this.bad(depth, `reading it threw: ${safeText(thrown, 200)}`, '[unreadable]', { cause: thrown })
    }
  }

  container(value: object, depth: number, afterToJSON: boolean): void {
    const isArray = Array.isArray(value)
    const plain = isPlain(value, isArray)
    if (!plain && this.special(value, depth)) return
    if (this.refuses && !plain) this.refuseConverted(value, depth)
    const toJSON = afterToJSON ? undefined : (value as { toJSON?: unknown }).toJSON
    if (typeof toJSON === 'function') {
      this.converted(value, toJSON as (key: string) => unknown, depth)
    } else if (this.refuses && !plain) {
      const name = className(value, 'class')
      throw this.refusal(depth, `an instance of ${name} loses its type; pass a plain object or array`)
    } else if (this.refuses && hasEnumerableSymbol(value)) {
      throw this.refusal(depth, 'it has a symbol as a key, which JSON leaves out; use string keys')
    } else if (isArray) {
      this.array(value, depth)
    } else if (this.refuses) {
      this.fields(value, depth, plain)
    } else if (types.isMap(value)) {
      this.array([...Map.prototype.entries.call(value)], depth)
    } else if (types.isSet(value)) {
      this.array([...Set.prototype.values.call(value)], depth)
    } else {
      this.fields(value, depth, plain)
    }
  }

  converted(value: object, toJSON: (key: string) => unknown, depth: number): void {
    if (this.refuses) {
      const remedy = 'it has a toJSON method, so something else would come back; pass what that returns'
      throw this.refusal(depth, remedy)
    }
    const key = depth === 0 ? '' : String(this.path[depth - 1])
    this.value(Reflect.apply(toJSON, value, [key]), depth, true)
  }

  /** Built-ins that JSON gets wrong with or without a toJSON. True when the value has been written or refused. */
  special(value: object, depth: number): boolean {
    if (types.isDate(value) && Number.isNaN(Date.prototype.getTime.call(value))) {
      this.bad(depth, 'the Date is invalid; pass null', '[invalid Date]')
    } else if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      const name = className(value, 'buffer')
      this.bad(depth, `a ${name} has no JSON form; pass base64 text`, `[${name} of ${value.byteLength} bytes]`)
    } else if (!this.refuses && (types.isNativeError(value) || value instanceof Error)) {
      this.write(JSON.stringify(this.ofError!(value)))
    } else {
      return false
    }
    return true
  }

  /** JSON would silently change these. */
  refuseConverted(value: object, depth: number): void {
    const remedy = types.isDate(value)
      ? 'a Date comes back as a string; pass date.toISOString()'
      : value instanceof URL
        ? 'a URL comes back as a string; pass url.href'
        : types.isMap(value)
          ? 'a Map has no JSON form; pass Object.fromEntries(map)'
          : types.isSet(value)
            ? 'a Set has no JSON form; pass [...set]'
            : undefined
    if (remedy !== undefined) throw this.refusal(depth, remedy)
  }

  array(values: unknown[], depth: number): void {
    const length = values.length
    // A hole needs no test of its own: it reads as undefined.
    if (this.refuses && Object.keys(values).length > length) {
      throw this.refusal(depth, 'the array has named properties, which JSON leaves out; pass a plain object')
    }
    this.write('[')
    for (let i = 0; i < length; i++) {
      if (i > 0) this.write(',')
      this.path[depth] = i
      this.value(this.member(values, i, depth + 1), depth + 1)
      if (this.length > this.maxBytes) this.tooLarge()
    }
    this.write(']')
  }

  fields(value: object, depth: number, plain: boolean): void {
    const keys = Object.keys(value)
    // A Date or a Map that has lost its prototype. With keys of its own it would pass for an object in any case.
    if (this.refuses && keys.length === 0) this.refuseConverted(value, depth)
    let separator = '{'
    for (const key of keys) {
      this.path[depth] = key
      const child = this.member(value, key, depth + 1)
      if (child === undefined) continue
      this.write(separator)
      this.write(PLAIN_KEYS.get(key) ?? this.quotedKey(key, depth + 1))
      this.value(child, depth + 1)
      if (this.length > this.maxBytes) this.tooLarge()
      separator = ','
    }
    // A Promise, a RegExp, a WeakMap: the name is more useful than {}.
    if (!plain && keys.length === 0) this.write(JSON.stringify(`[${className(value, 'object')}]`))
    else this.write(separator === '{' ? '{}' : '}')
  }

  /** The only read of a member. */
  member(holder: object, key: string | number, depth: number): unknown {
    try {
      return (holder as Record<string | number, unknown>)[key]
    } catch (thrown) {
      if (!this.refuses) return '[unreadable]'
      throw this.refusal(depth, `reading it threw: ${safeText(thrown, 200)}`, { cause: thrown })
    }
  }

  quotedKey(key: string, depth: number): string {
    if (key !== '__proto__') return remembered(key, `${this.quoted(key, depth)}:`)
    // Copied onto another object by assignment, it would replace the prototype.
    if (this.refuses) throw this.refusal(depth, 'a key named __proto__ is not safe to copy; rename it')
    return '"[__proto__]":'
  }

  /** What is longer than the limit is not even looked at. */
  quoted(text: string, depth: number): string {
    if (text.length > this.maxBytes - this.length) {
      this.write(JSON.stringify(replaceUnstorable(text.slice(0, 1000))))
      this.tooLarge()
    }
    if (!NEEDS_CARE.test(text)) return `"${text}"`
    if (!this.refuses) return JSON.stringify(replaceUnstorable(text))
    if (text.includes('\0')) throw this.refusal(depth, 'Postgres cannot store the character NUL (U+0000); remove it')
    if (LONE_SURROGATE.test(text)) {
      throw this.refusal(depth, 'it holds half of a surrogate pair, which is not text; repair it or pass base64')
    }
    return JSON.stringify(text)
  }

  /** Refuses, or writes the substitute. */
  bad(depth: number, reason: string, substitute: string | null, options?: ErrorOptions): void {
    if (this.refuses) throw this.refusal(depth, reason, options)
    this.write(JSON.stringify(substitute))
  }

  refusal(depth: number, reason: string, options?: ErrorOptions): Error {
    this.stop = new ValueNotStorableError(this.pathTo(depth), reason, options)
    return this.stop
  }

  tooLarge(): never {
    throw this.refusal(0, `it is larger than ${this.maxBytes} bytes of JSON; store it elsewhere and pass a reference`)
  }

  pathTo(depth: number): string {
    let text = '$'
    for (const key of this.path.slice(0, depth)) {
      if (typeof key === 'number') text += `[${key}]`
      else if (/^[A-Za-z_$][\w$]{0,99}$/.test(key)) text += `.${key}`
      // Printed as JSON, so that a NUL or half a surrogate pair can be seen, and the path itself can be stored.
      else text += `[${JSON.stringify(key.length > 100 ? `${key.slice(0, 100)}…` : key)}]`
    }
    return text
  }
}

function remembered(key: string, quoted: string): string {
  const isPlainKey = key.length <= LONGEST_KEY_KEPT && !NEEDS_CARE.test(key)
  if (isPlainKey && PLAIN_KEYS.size < KEYS_KEPT) PLAIN_KEYS.set(key, quoted)
  return quoted
}

function within(given: number | undefined, standard: number, ceiling: number): number {
  return given !== undefined && given >= 0 ? Math.min(given, ceiling) : standard
}
