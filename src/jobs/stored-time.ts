/**
 * A time as Postgres stores it: microseconds since 2000, in 16 hexadecimal digits. A claim returns times this way, because a
 * Date would lose the microseconds, because no setting of a session changes the text, and because printing dates costs a
 * claim more.
 */
export type StoredTime = string & { readonly __brand: 'StoredTime' }

const YEAR_2000_MS = 946_684_800_000

/** Negative: before 2000, with the sign bit set. Within one sign the digits sort as time does. */
export function isEarlier(one: StoredTime, other: StoredTime): boolean {
  const isNegative = one.charAt(0) >= '8'
  return isNegative === other.charAt(0) >= '8' ? one < other : isNegative
}

export function dateOf(time: StoredTime): Date {
  return new Date(Number(microsOf(time)) / 1000 + YEAR_2000_MS)
}

/** From one time to another, to the microsecond. */
export function msBetween(from: StoredTime, to: StoredTime): number {
  const [start, end] = [exactMicrosOf(from), exactMicrosOf(to)]
  if (start !== undefined && end !== undefined) return (end - start) / 1000
  return Number(microsOf(to) - microsOf(from)) / 1000
}

/** From 2000 to 2285 the microseconds fit into a number, and that is quicker. Undefined at any other time. */
function exactMicrosOf(time: StoredTime): number | undefined {
  const high = Number.parseInt(time.slice(0, 8), 16)
  return high >= 2 ** 21 ? undefined : high * 2 ** 32 + Number.parseInt(time.slice(8), 16)
}

/** As a parameter of a statement, to the microsecond. */
export function timeText(time: StoredTime): string {
  return textBefore(time, 0)
}

/** The same, so many whole milliseconds earlier. */
export function textBefore(time: StoredTime, ms: number): string {
  const micros = (exactMicrosOf(time) ?? -1) - ms * 1000
  if (micros < 0) return textOfAny(microsOf(time), ms)
  const text = new Date(Math.floor(micros / 1000) + YEAR_2000_MS).toISOString()
  return `${text.slice(0, 10)} ${text.slice(11, 23)}${String(micros % 1000).padStart(3, '0')}+00`
}

function textOfAny(stored: bigint, ms: number): string {
  if (stored === MINUS_INFINITY) return '-infinity'
  const micros = stored - BigInt(ms) * 1000n
  const sinceMidnight = ((micros % DAY) + DAY) % DAY
  const midnight = new Date(Number((micros - sinceMidnight) / 1000n) + YEAR_2000_MS)
  return `${midnight.toISOString().slice(0, 10)} ${clockText(sinceMidnight)}+00`
}

const DAY = 86_400_000_000n
const MINUS_INFINITY = -(2n ** 63n)

function clockText(micros: bigint): string {
  const two = (value: bigint) => String(value).padStart(2, '0')
  const seconds = micros / 1_000_000n
  const fraction = String(micros % 1_000_000n).padStart(6, '0')
  return `${two(seconds / 3600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}.${fraction}`
}

function microsOf(time: StoredTime): bigint {
  return BigInt.asIntN(64, BigInt(`0x${time}`))
}
