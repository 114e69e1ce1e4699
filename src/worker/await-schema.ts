import { SchemaError } from '../core/errors.ts'
import { sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import type { LoopEvents } from '../runtime/loop.ts'

const AGAIN_AFTER_MS = 1_000

/** Wrong password, not allowed, no such database: at the start, waiting will not help. */
const NOT_FOR_US = ['28P01', '28000', '3D000']

export interface AwaitSchemaOptions {
  readonly deadlineMs: number
  /** A database that cannot be reached is waited for. False: its error is thrown. */
  readonly waits: boolean
  /** Aborts when the worker is asked to stop. */
  readonly stopAsked: AbortSignal
  readonly events: Required<LoopEvents>
}

/** Resolves when the schema was found to be usable, or when the worker is asked to stop. Throws if it was not migrated. */
export async function awaitSchema(connection: Connection, options: AwaitSchemaOptions): Promise<void> {
  const { deadlineMs, waits, stopAsked, events } = options
  const stopped = new Promise<void>((resolve) => stopAsked.addEventListener('abort', () => resolve(), { once: true }))
  while (!stopAsked.aborted) {
    try {
      await Promise.race([stopped, connection.checkSchema(deadlineMs, stopped)])
      return stopAsked.aborted ? undefined : events.worksAgain()
    } catch (error) {
      const wontHelp = error instanceof SchemaError || NOT_FOR_US.includes(String((error as { code?: unknown }).code))
      if (wontHelp || !waits) throw error
      events.problem(error)
      await sleep(AGAIN_AFTER_MS * (0.5 + Math.random()), stopAsked)
    }
  }
}
