/**
 * Workflows: three steps beside DBOS, each in a process of its own on one PostgreSQL; a run of a thousand steps; runs that sleep beside
 * those that work; senders of signals in open transactions. Absurd is not measured: its tables come from a file that no registry
 * of packages has.
 */
import { installPackages } from '../packages.ts'
import { BenchServer } from '../server.ts'
import { inWords } from '../weather/bar.ts'
import { longRuns } from './long-runs.ts'
import { peers } from './peers.ts'
import { sleeping } from './sleeping.ts'

const FULL = {
  peers: { rounds: 3, warmUp: 1_000, runs: { leasehold: 10_000, dbos: 3_000 } },
  steps: 1_000,
  rounds: 3,
  sleepers: 100_000,
  runs: 4_000,
  pairs: 5,
}
const QUICK = {
  peers: { rounds: 1, warmUp: 50, runs: { leasehold: 300, dbos: 150 } },
  steps: 200,
  rounds: 1,
  sleepers: 2_000,
  runs: 200,
  pairs: 1,
}

export async function runWorkflow(quick: boolean, json: boolean, say: (text: string) => void): Promise<void> {
  await installPackages(say)
  const sizes = quick ? QUICK : FULL
  const server = await BenchServer.start(18, { max_connections: '200' })
  try {
    const bars = [
      ...(await peers(server, sizes.peers, say)),
      ...(await longRuns(server, sizes.steps, sizes.rounds)),
      ...(await sleeping(server, sizes.sleepers, sizes.runs, sizes.pairs)),
    ]
    console.log(bars.map(inWords).join('\n'))
    if (json) console.log(JSON.stringify({ scenario: 'workflow', quick, postgres: server.version, bars }))
  } finally {
    await server.stop()
  }
}
