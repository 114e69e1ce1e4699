import type { Kind } from '../core/kind.ts'
import type { Log } from '../core/log.ts'
import type { RetentionMs } from '../core/retention.ts'
import type { Lane } from '../db/lane.ts'
import { configurationDifferences } from '../queue/configuration.ts'

/** Logs a warning per difference between what this process declares and what configure() has stored. Never throws. */
export async function compareConfiguration(
  lane: Lane,
  kinds: readonly Kind[],
  retention: Partial<RetentionMs>,
  log: Log,
): Promise<void> {
  try {
    for (const message of await configurationDifferences(lane, kinds, retention)) log({ level: 'warn', message })
  } catch (error) {
    log({ level: 'warn', message: 'the stored configuration could not be compared with this process', error })
  }
}
