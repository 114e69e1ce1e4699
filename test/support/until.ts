import { scheduler } from 'node:timers/promises'

/** A guard against waiting for ever, not a limit on how long things should take. */
const WITHIN_S = 120
const LOOK_AGAIN_MS = 5

type NotYet = undefined | false

/** Polls until the result is true, and returns it: for changes that no event announces. */
export async function until<T>(
  what: string,
  condition: () => T | NotYet | Promise<T | NotYet>,
): Promise<Exclude<T, NotYet>> {
  const deadline = process.uptime() + WITHIN_S // No movable clock changes it.
  for (;;) {
    const answer = await condition()
    if (answer !== undefined && answer !== false) return answer as Exclude<T, NotYet>
    if (process.uptime() > deadline) throw new Error(`${what}: not within ${WITHIN_S} s`)
    await scheduler.wait(LOOK_AGAIN_MS)
  }
}
