/** How large this demo is, and how fast. */
import type { Way } from './messages.ts'

export const ROWS = 40
/** The fate of the messages of so many rows. All others are delivered twice, one after the other. */
export const FATES = { atOnce: 6, killed: 2, slow: 2 }
export const PAID_TWICE = FATES.atOnce + FATES.killed + FATES.slow
/** By the other one of two concurrent workers, or by a late one. A killed one writes nothing. */
export const OVERWRITTEN = FATES.atOnce + FATES.slow
export const CENTS_PER_CALL = 3

/** How the messages of each act are handled. */
export function waysOfActs(isUnguarded: boolean): readonly Way[] {
  return ['naive', 'one UPDATE', isUnguarded ? 'one UPDATE' : 'two phases']
}

export const WORKERS = 3
/** Messages under way at a time, of those to which nothing happens. */
export const LANES = 6
/** After this, a message that was not acknowledged is redelivered. On SQS it is 30 s by default. */
export const HIDDEN_MS = 1_000

/** Each entity is evaluated by so many at once, some in each process. */
export const ENTITIES = 20
export const RACERS = 6
export const EVALUATIONS = ENTITIES * RACERS
/** In the pool of each process. */
export const CONNECTIONS = 2

/** For the reader to catch up. Nothing else depends on it. */
export const BEAT_MS = 500
/** Longer than this, and something is wrong. */
export const SECONDS_AT_MOST = 300

/** The rows of an act: 101 to 140, 201 to 240 … */
export function rowsOf(act: number): Record<keyof typeof FATES | 'calm', number[]> {
  const ids = Array.from({ length: ROWS }, (_, index) => act * 100 + index + 1)
  const atOnce = ids.splice(0, FATES.atOnce)
  const killed = ids.splice(0, FATES.killed)
  const slow = ids.splice(0, FATES.slow)
  return { atOnce, killed, slow, calm: ids }
}

export function idsOf(act: number): number[] {
  return Object.values(rowsOf(act)).flat()
}
