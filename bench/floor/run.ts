/**
 * The floor: the raw statements in a loop with no runtime around them, design against design. A change of a statement, an
 * index or a column shows here first. What a runtime adds on top shows in `npm run bench`.
 *
 * How to read it. "db µs" and "node µs" are processor time per job, as the operating system counts it: of the sessions
 * that did the work, and of this process. They are the figures to compare, since jobs/s also depends on what else the
 * machine does. "other µs" is the server's other processes. "WAL B" is what went into the log; each phase starts with a
 * checkpoint, so the first change of a page logs it whole, and "images B" is that part: subtract it for a server that is
 * far from its last checkpoint. "HOT %" is the share of updates that touched no index. "retries" are completions that
 * returned `busy` and were sent again. The leasehold rows go through the checks of the real enqueue(), the spec-table rows
 * through none. A ratio compares processor time per job under a burden with that of the same jobs without it, in pairs run
 * one after the other. Every figure is a median. A bar that is missed is printed, not an error: the exit code shows only
 * whether every job was claimed once, completed once, and none was lost.
 */
import { availableParallelism, loadavg } from 'node:os'
import type { PostgresVersion } from '../../tools/postgres.ts'
import { checkJobs, readOptions, runOrExplain, UsageError } from '../arguments.ts'
import { BenchServer } from '../server.ts'
import { type Bench, FULL, QUICK, type Sizes } from './bench.ts'
import { tables } from './report.ts'
import { Results } from './results.ts'
import {
  backlogScenario,
  heldSnapshotScenario,
  inFlightScenario,
  otherKindScenario,
  scheduledScenario,
} from './scenarios/burdens.ts'
import { drainScenario, hotShareScenario, steadyScenario, warmUpScenario } from './scenarios/throughput.ts'

const SCENARIOS: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  drain: drainScenario,
  steady: steadyScenario,
  'hot-share': hotShareScenario,
  'held-snapshot': heldSnapshotScenario,
  'backlog-1m': backlogScenario,
  'scheduled-1m': scheduledScenario,
  'in-flight-20k': inFlightScenario,
  'other-kind-300k': otherKindScenario,
}
const VERSIONS: Readonly<Record<string, PostgresVersion>> = { 14: 14, 15: 15, 16: 16, 17: 17, 18: 18 }
const USAGE = `Usage: npm run bench:floor -- [options]
  --scenario <name>  one of ${Object.keys(SCENARIOS).join(', ')}; may be repeated. All unless given.
  --n <jobs>         how many jobs are measured, whatever the scenario; the burdens keep their size.
  --quick            small sizes and one round, to see that everything runs.
  --pg <version>     14 to 18. 18 unless given.
  --json             one line of JSON, the last of the output.`

interface Arguments {
  readonly names: readonly string[]
  readonly sizes: Sizes
  readonly version: PostgresVersion
  readonly quick: boolean
  readonly json: boolean
}

function readArguments(): Arguments {
  const { scenario, n, quick, pg, json } = parsed()
  const names = scenario ?? Object.keys(SCENARIOS)
  for (const name of names) if (!Object.hasOwn(SCENARIOS, name)) throw new UsageError(`There is no scenario ${name}.`)
  const version = VERSIONS[pg]
  if (version === undefined) throw new UsageError(`There is no --pg ${pg}.`)
  const sizes = quick ? QUICK : FULL
  if (n === undefined) return { names, sizes, version, quick, json }
  const jobs = checkJobs(n)
  return { names, sizes: { ...sizes, jobs, hotShareJobs: jobs, melting: jobs, beside: jobs }, version, quick, json }
}

function parsed() {
  const flag = { type: 'boolean', default: false } as const
  return readOptions({
    scenario: { type: 'string', multiple: true },
    n: { type: 'string' },
    quick: flag,
    pg: { type: 'string', default: '18' },
    json: flag,
  })
}

async function run({ names, sizes, version, quick, json }: Arguments): Promise<void> {
  const began = performance.now()
  const seconds = () => Math.round((performance.now() - began) / 1000)
  const loadBefore = loadavg()[0]!
  const server = await BenchServer.start(version)
  const results = new Results()
  try {
    const say = (text: string) => process.stderr.write(`${String(seconds()).padStart(4)} s  ${text}\n`)
    const bench: Bench = { server, sizes, results, say }
    await warmUpScenario(bench)
    for (const name of names) await SCENARIOS[name]!(bench)
  } finally {
    await server.stop()
  }
  const machine = { cores: availableParallelism(), loadBefore, node: process.version, postgres: server.version }
  console.log(tables(results))
  console.log(`\nPostgreSQL ${server.version}, Node ${process.version}, ${machine.cores} cores, ${seconds()} s.`)
  const { figures, ratios, bars } = results
  if (json) console.log(JSON.stringify({ ...machine, quick, seconds: seconds(), sizes, figures, ratios, bars }))
}

await runOrExplain(() => run(readArguments()), USAGE)
