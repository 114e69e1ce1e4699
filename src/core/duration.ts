import { InvalidOptionError } from './errors.ts'

type Unit = 'ms' | 's' | 'm' | 'h' | 'd'

/** '250ms', '30s', '5m', '2h', '7d', or a number of milliseconds. */
export type Duration = number | `${number}${Unit}`

const UNIT_MS: Record<Unit, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** The longest duration accepted. A longer one is a mistake, and overflows Postgres intervals or timers. */
export const CENTURY_MS = 100 * 365 * UNIT_MS.d

/** In milliseconds. Throws InvalidOptionError for anything that is not a duration from `leastMs` to a century. */
export function durationMs(option: string, value: Duration, leastMs = 0): number {
  const ms = typeof value === 'number' ? value : parse(value)
  if (ms !== undefined && ms >= leastMs && ms <= CENTURY_MS) return ms
  const least = leastMs > 0 ? `, at least ${leastMs} ms` : ''
  const negative = isNegative(value) ? 'it is negative; ' : ''
  const such = `it must be a duration such as '30s', '5m' or 1500 (milliseconds)${least}`
  throw new InvalidOptionError(option, `${negative}${such}${notThis(value)}`)
}

function isNegative(value: unknown): boolean {
  if (typeof value === 'number') return value < 0
  return typeof value === 'string' && value.startsWith('-') && parse(value.slice(1)) !== undefined
}

/** Ends a message with the value that was given, as far as it can be printed. */
export function notThis(value: unknown): string {
  if (typeof value === 'number') return `, not ${value}`
  return typeof value === 'string' ? `, not ${JSON.stringify(value.slice(0, 40))}` : ''
}

/** The shortest way to write it: 7d, 36h, 1500ms. */
export function durationText(ms: number): string {
  const units: readonly Unit[] = ['d', 'h', 'm', 's']
  const unit = units.find((name) => ms >= UNIT_MS[name] && ms % UNIT_MS[name] === 0) ?? 'ms'
  return `${ms / UNIT_MS[unit]}${unit}`
}

/** For people, in at most two units: `3s`, `4m 10s`, `2h 5m`, `3d 4h`. */
export function roughDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`
  const seconds = Math.floor(ms / 1_000)
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['m', 60],
    ['s', 1],
  ] as const
  const first = units.findIndex(([, size]) => seconds >= size)
  const [unit, size] = units[first]!
  const next = units[first + 1]
  const rest = next === undefined ? 0 : Math.floor((seconds % size) / next[1])
  return `${Math.floor(seconds / size)}${unit}${rest === 0 ? '' : ` ${rest}${next![0]}`}`
}

/** As Postgres reads it, for options in JSON. Before 15 a number of milliseconds must fit 32 bits: 24 days. */
export function intervalText(ms: number): string {
  const hours = Math.floor(ms / UNIT_MS.h)
  return `${hours} hours ${(Math.round(ms) - hours * UNIT_MS.h) / 1_000} seconds`
}

function parse(value: unknown): number | undefined {
  const match = typeof value === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(value) : null
  return match === null ? undefined : Number(match[1]) * UNIT_MS[match[2] as Unit]
}
