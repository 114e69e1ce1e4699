// Stops a statement between the moment its snapshot is taken and the moment it looks at rows, for as long as a test
// wants: the statement first asks for an advisory lock that the test holds.
import type pg from 'pg'
import { Lane, type Row } from '../../src/db/lane.ts'
import { type TestDatabase, waitUntilBlocked } from './database.ts'

const GATE = 4711

/** The same statement, but for a gate in front of the first rows it reads. */
export function withGate(statement: string): string {
  const gated = statement
    .replace(/^-- \S+/, '$&.gated')
    .replace(/\bfrom (unnest\(\(select|expired e\b)/, `from (select pg_advisory_xact_lock_shared(${GATE})) as gate, $1`)
  if (!gated.includes('as gate')) throw new Error('the statement has no place for a gate')
  return gated
}

export interface Paused {
  /** Lets the statement go on and returns what it answers. */
  resume(): Promise<readonly Row[]>
}

/** Starts the statement in a session of its own and returns once its snapshot is taken and it waits at the gate. */
export async function pause(db: TestDatabase, statement: string, values: readonly unknown[]): Promise<Paused> {
  const [keeper, runner] = await Promise.all([db.connect(), db.connect()])
  await keeper.query('select pg_advisory_lock($1)', [GATE])
  const answer = new Lane(runner).run(withGate(statement), values)
  answer.catch(() => {}) // reported by resume()
  await waitUntilBlocked(keeper, (runner as pg.Client & { processID: number }).processID)
  return {
    resume: async () => {
      await keeper.query('select pg_advisory_unlock($1)', [GATE])
      return answer
    },
  }
}
