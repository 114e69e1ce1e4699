/** Moves the clock from one thing that happens by itself to the next, and lets jobs run in between. */
import type { Connection } from '../db/connection.ts'
import { wakeSignalled } from '../jobs/signals.ts'
import type { Handler } from '../worker/handler.ts'
import { NEXT_EVENT } from './clock.sql.ts'
import type { TestClock } from './clock.ts'

/** Longer than the interval of every duty that may let a job go on: sweeps, and suspects of a crash. */
const DUTIES_MS = 11_000
/** A job that is ready and does not run by then has no handler here. */
const NUDGES = 3

export interface Stepping {
  readonly connection: Connection
  readonly clock: TestClock
  readonly handlers: readonly Handler[]
  /** How far the clock is moved at most. */
  readonly atMostMs: number
  /** Runs what is due. Returns how many jobs had an outcome. */
  work(): Promise<number>
  /** Whether it has come as far as it should. */
  isOver(): Promise<boolean>
}

/** Resolves when it is over, or when nothing more can happen by itself. */
export async function stepOver({ connection, clock, handlers, atMostMs, work, isOver }: Stepping): Promise<void> {
  const { lane } = connection
  const kinds = handlers.map(({ kind }) => kind.name)
  let leftMs = atMostMs
  const move = async (ms: number) => {
    leftMs -= ms
    await clock.advance(ms)
  }
  for (let nudges = 0; ; ) {
    const done = await work()
    await wakeSignalled(lane)
    if (await isOver()) return
    const [row] = await lane.run<'due' | 'next_ms'>(NEXT_EVENT, [kinds])
    const nextMs = row!.next_ms === null ? Number.POSITIVE_INFINITY : Number(row!.next_ms)
    if (done > 0) nudges = 0
    // The first time it may have become ready after the drain had looked.
    if (row!.due === 't' && nudges < NUDGES && (nudges === 0 || leftMs >= DUTIES_MS)) {
      if (nudges++ > 0) await move(DUTIES_MS)
    } else if (nextMs <= leftMs) await move(nextMs)
    else return
  }
}
