import type { Kind } from '../core/kind.ts'
import type { Log } from '../core/log.ts'
import type { RetentionMs } from '../core/retention.ts'
import type { Lane } from '../db/lane.ts'
import { configurationDifferences, strandedJobs } from '../jobs/configuration.ts'

/**
 * Logs a warning per difference between what this process declares and what configure() has stored, and per queue in which
 * jobs of its kinds are stranded. Never throws.
 */
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
  await warnOfStranded(lane, kinds, log)
}

/** Logs a warning per kind and queue in which pending jobs of the kind wait that no worker of its declared queue claims. */
export async function warnOfStranded(lane: Lane, kinds: readonly Kind[], log: Log): Promise<void> {
  try {
    for (const message of await strandedJobs(lane, kinds)) log({ level: 'warn', message })
  } catch (error) {
    log({ level: 'warn', message: 'could not look for pending jobs in queues that their kinds have left', error })
  }
}
