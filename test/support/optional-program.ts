// Tests that need a program from outside npm. A machine without it skips them, with a line of advice. CI never
// skips: there a missing program is a failure.
import { fakeTime, ProgramMissingError } from '../../tools/debian.ts'
import { findNats } from '../../tools/nats.ts'
import { findPgBouncer } from '../../tools/pgbouncer.ts'

/** Options of a test. */
export interface Needs {
  readonly skip: string | false
}

export const needsPgBouncer = () => needs(findPgBouncer)
/** `NATS_URL` names one that runs; a cluster is always started here. */
export const needsNats = () => needs(process.env.NATS_URL ? async () => {} : findNats)
export const needsNatsCluster = () => needs(findNats)
export const needsFakeTime = () => needs(() => fakeTime('+1h'))

export async function needs(find: () => Promise<unknown>, env: NodeJS.ProcessEnv = process.env): Promise<Needs> {
  if (env.CI || env.LEASEHOLD_NEVER_SKIP) return { skip: false }
  try {
    await find()
    return { skip: false }
  } catch (error) {
    if (error instanceof ProgramMissingError) return { skip: error.message.split('\n')[0]! }
    throw error
  }
}
