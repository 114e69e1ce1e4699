// Stops a statement between the moment its snapshot is taken and the moment it looks at rows, for as long as a test
// wants: the statement first asks for an advisory lock that the test holds.
import type pg from 'pg'
import { Lane, type Row } from '../../src/db/lane.ts'
import { type TestDatabase, waitUntilBlocked } from './database.ts'

const GATE = 4711

/** The same statement with a gate in front of the first rows it reads. */
function withGate(statement: string): string {
  const gated = statement
    .replace(/^-- \S+/, '$&.gated')
    .replace('leasehold.claim(', 'leasehold.claim_gated(')
    .replace(
      /\bfrom (unnest\(\(|\(\s+select unnest\(queues\)|expired e\b|leasehold\.job\s+where id = any \(\(select \$1)/,
      `from (select pg_advisory_xact_lock_shared(${GATE})) as gate, $1`,
    )
  if (!/as gate|_gated\(/.test(gated)) throw new Error('the statement has no place for a gate')
  return gated
}

/** The claim is a function: its twin, leasehold.claim_gated(), has the gate inside, after the walk's own snapshot. */
async function gateTheClaim(client: pg.Client): Promise<void> {
  const { rows } = await client.query("select pg_get_functiondef('leasehold.claim'::regproc) as definition")
  const gated = withGate(rows[0].definition.replaceAll(/^#variable_conflict.*$/gm, '#variable_conflict use_column'))
    .replace('FUNCTION leasehold.claim(', 'FUNCTION leasehold.claim_gated(')
    .replaceAll(/\bclaim\.(claim_id|worker_id)/g, 'claim_gated.$1')
  await client.query(gated)
}

export interface Paused {
  /** Lets the statement go on and returns its result. */
  resume(): Promise<readonly Row[]>
}

/** Starts the statement in a session of its own and returns once its snapshot is taken and it waits at the gate. */
export async function pause(db: TestDatabase, statement: string, values: readonly unknown[]): Promise<Paused> {
  const [keeper, runner] = await Promise.all([db.connect(), db.connect()])
  await gateTheClaim(keeper)
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
