/**
 * Workflows: three steps beside DBOS and Absurd, each in a process of its own on one PostgreSQL; a run of a thousand steps; runs that
 * sleep beside those that work; senders of signals in open transactions. Absurd's tables come from a file that its npm package does
 * not have, so it takes part if `--absurd` names that file: sql/absurd.sql of its repository, at the tag of the pinned version.
 */
import { readFile } from 'node:fs/promises'
import { UsageError } from '../arguments.ts'
import { installPackages } from '../packages.ts'
import { BenchServer } from '../server.ts'
import { inWords } from '../weather/bar.ts'
import { longRuns } from './long-runs.ts'
import { peers } from './peers.ts'
import { sleeping } from './sleeping.ts'

const FULL = {
  peers: { rounds: 3, warmUp: 1_000, runs: { leasehold: 10_000, dbos: 3_000, absurd: 3_000 } },
  steps: 1_000,
  rounds: 7,
  sleepers: 100_000,
  runs: 4_000,
  pairs: 5,
}
const QUICK = {
  peers: { rounds: 1, warmUp: 50, runs: { leasehold: 300, dbos: 150, absurd: 150 } },
  steps: 200,
  rounds: 1,
  sleepers: 2_000,
  runs: 200,
  pairs: 1,
}

export interface WorkflowArguments {
  readonly quick: boolean
  readonly json: boolean
  /** The file that makes Absurd's tables. */
  readonly absurd: string | undefined
}

export async function runWorkflow(
  { quick, json, absurd }: WorkflowArguments,
  say: (text: string) => void,
): Promise<void> {
  const absurdTables = absurd === undefined ? undefined : await readTables(absurd)
  if (absurdTables === undefined) say('workflow: Absurd is left out. It takes --absurd <its sql/absurd.sql>.')
  await installPackages(say)
  const sizes = quick ? QUICK : FULL
  const server = await BenchServer.start(18, { max_connections: '200' })
  try {
    const bars = [
      ...(await peers(server, sizes.peers, absurdTables, say)),
      ...(await longRuns(server, sizes.steps, sizes.rounds)),
      ...(await sleeping(server, sizes.sleepers, sizes.runs, sizes.pairs)),
    ]
    console.log(bars.map(inWords).join('\n'))
    if (json) console.log(JSON.stringify({ scenario: 'workflow', quick, postgres: server.version, bars }))
  } finally {
    await server.stop()
  }
}

async function readTables(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new UsageError(`--absurd takes the path of Absurd's sql/absurd.sql: ${(error as Error).message}.`)
  }
}
