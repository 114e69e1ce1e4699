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
  /** Resolves when the worker is asked to stop. */
  readonly stopAsked: Promise<void>
  isStopping(): boolean
  readonly events: Required<LoopEvents>
}

/** Resolves when the schema was found to be usable, or when the worker is asked to stop. Throws if it was not migrated. */
export async function awaitSchema(connection: Connection, options: AwaitSchemaOptions): Promise<void> {
  const { deadlineMs, waits, stopAsked, isStopping, events } = options
  while (!isStopping()) {
    try {
      await Promise.race([stopAsked, connection.checkSchema(deadlineMs, stopAsked)])
      return isStopping() ? undefined : events.worksAgain()
    } catch (error) {
      const wontHelp = error instanceof SchemaError || NOT_FOR_US.includes(String((error as { code?: unknown }).code))
      if (wontHelp || !waits) throw error
      events.problem(error)
      await Promise.race([stopAsked, sleep(AGAIN_AFTER_MS * (0.5 + Math.random()))])
    }
  }
}
