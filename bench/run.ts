/**
 * Leasehold beside its peers: one run, one PostgreSQL, one Node, the same payload, each at its best setting.
 *
 * How to read it. A contender has one worker process and, apart from it, one producer; handlers do nothing, unless the title
 * of a table says otherwise. The clock of a
 * drain runs from the first handler after the warm-up to the moment when no job is left without a committed outcome.
 * "Node µs" is processor time of the worker process per job, "database µs" that of all processes of the server; jobs/s
 * also depends on what else the machine does. Every figure is a median over rounds in which the contenders take turns,
 * with its spread in parentheses. `floor` is the raw statements in a plain loop, a yardstick and no limit: a worker overlaps
 * claims with completions, the loop does not. A ratio
 * of costs compares processor time per job, Node and database, under a burden and without, in pairs run one after the
 * other. A bar that is missed is printed, not an error: the exit code shows only whether everything ran and every job was
 * handled once.
 */
import { availableParallelism, cpus, totalmem } from 'node:os'
import { checkJobs, checkMinutes, readOptions, runOrExplain, UsageError } from './arguments.ts'
import { ratios } from './bars.ts'
import { type Bench, FULL, QUICK, type Sizes, withProcess } from './bench.ts'
import { CONTENDERS, type ContenderName } from './contenders/names.ts'
import { writeDocumentation } from './documentation.ts'
import { runInspect } from './inspect.ts'
import { runOutbox } from './outbox.ts'
import { contendersNode, installPackages } from './packages.ts'
import type { Description } from './process/protocol.ts'
import { Remote } from './process/remote.ts'
import type { Report } from './report.ts'
import { Results } from './results.ts'
import { backlogScenario, heldSnapshotScenario, inFlightScenario, scheduledScenario } from './scenarios/burdens.ts'
import { fleetScenario } from './scenarios/fleet.ts'
import { heldLongScenario } from './scenarios/held-long.ts'
import { idleScenario, singleScenario } from './scenarios/latency.ts'
import { memoryScenario } from './scenarios/memory.ts'
import { orderScenario } from './scenarios/order.ts'
import {
  asyncScenario,
  drainScenario,
  neverAnalyzedScenario,
  oneByOneScenario,
  oneHandlerScenario,
  steadyScenario,
} from './scenarios/throughput.ts'
import { trickleScenario } from './scenarios/trickle.ts'
import { workersScenario } from './scenarios/workers.ts'
import { BenchServer } from './server.ts'
import { figureTables, forTerminal, ratioTable } from './tables.ts'
import { runWeather } from './weather/run.ts'
import { runWorkflow } from './workflow/run.ts'

const SCENARIOS: Readonly<Record<string, (bench: Bench) => Promise<void>>> = {
  drain: drainScenario,
  single: singleScenario,
  steady: steadyScenario,
  idle: idleScenario,
  trickle: trickleScenario,
  workers: workersScenario,
  async: asyncScenario,
  'batch-1': oneByOneScenario,
  'one-handler': oneHandlerScenario,
  'never-analyzed': neverAnalyzedScenario,
  backlog: backlogScenario,
  memory: memoryScenario,
  'held-snapshot': heldSnapshotScenario,
  'held-snapshot-long': heldLongScenario,
  scheduled: scheduledScenario,
  'in-flight': inFlightScenario,
  order: orderScenario,
  fleet: fleetScenario,
}
/** They have contenders and results of their own. */
const ALONE = ['weather', 'outbox', 'workflow', 'inspect']
const USAGE = `Usage: npm run bench -- [options]
  --scenario <name>   one of ${Object.keys(SCENARIOS).join(', ')}; may be repeated. All unless given.
                      Or one of these, alone. weather: what holds while something else goes wrong, without peers, in minutes.
                      outbox: publishing and relaying, beside plainer ways; needs nats-server. workflow: beside DBOS and Absurd.
                      inspect: what an operator's questions cost with 1M live and 3M archived jobs.
  --contender <name>  one of ${CONTENDERS.join(', ')}; may be repeated. All unless given.
  --n <jobs>          how many jobs are measured, whatever the scenario; the burdens keep their size.
  --minutes <m>       how long held-snapshot-long goes on; 3 unless given, and 10 shows more.
  --absurd <file>     sql/absurd.sql of Absurd's repository. Without it workflow leaves Absurd out.
  --quick             small sizes and one round, and only drain unless scenarios are named: to see that all runs.
  --write-docs        put the tables and the chart into docs/benchmarks.md and docs/benchmarks.svg.
  --json              one line of JSON, the last of the output.`

interface Arguments {
  readonly names: readonly string[]
  readonly contenders: readonly ContenderName[]
  readonly sizes: Sizes
  readonly quick: boolean
  readonly writeDocs: boolean
  readonly json: boolean
  readonly absurd: string | undefined
}

function readArguments(): Arguments {
  const { scenario, contender, n, minutes, quick, json, absurd, 'write-docs': writeDocs } = parsed()
  const names = scenario ?? (quick ? ['drain'] : Object.keys(SCENARIOS))
  for (const name of names) {
    const isAlone = ALONE.includes(name)
    if (isAlone && names.length > 1) throw new UsageError(`The scenario ${name} is run alone.`)
    if (!isAlone && !Object.hasOwn(SCENARIOS, name)) throw new UsageError(`There is no scenario ${name}.`)
  }
  for (const name of contender ?? [])
    if (!CONTENDERS.some((known) => known === name)) throw new UsageError(`There is no contender ${name}.`)
  const contenders = CONTENDERS.filter((name) => contender === undefined || contender.includes(name))
  if (absurd !== undefined && names[0] !== 'workflow') throw new UsageError('--absurd is for --scenario workflow.')
  const usual = quick ? QUICK : FULL
  const sizes = minutes === undefined ? usual : { ...usual, heldMinutes: checkMinutes(minutes) }
  if (n === undefined) return { names, contenders, sizes, quick, writeDocs, json, absurd }
  const jobs = checkJobs(n)
  return { names, contenders, sizes: resized(sizes, jobs), quick, writeDocs, json, absurd }
}

function resized(sizes: Sizes, jobs: number): Sizes {
  const slowJobs = Math.min(jobs, sizes.slowJobs)
  const workers = { workersJobs: jobs, workersSlowJobs: Math.min(jobs, sizes.workersSlowJobs) }
  const order = { ...sizes.order, jobs, enqueued: jobs }
  const fleet = { ...sizes.fleet, jobs, slowJobs: Math.min(jobs, sizes.fleet.slowJobs), enqueued: jobs }
  return {
    ...sizes,
    jobs,
    steadyJobs: jobs,
    slowJobs,
    asyncJobs: jobs,
    ...workers,
    beside: jobs,
    heldJobs: jobs,
    order,
    fleet,
  }
}

function parsed() {
  const flag = { type: 'boolean', default: false } as const
  return readOptions({
    scenario: { type: 'string', multiple: true },
    contender: { type: 'string', multiple: true },
    n: { type: 'string' },
    minutes: { type: 'string' },
    absurd: { type: 'string' },
    quick: flag,
    'write-docs': flag,
    json: flag,
  })
}

async function run({ names, contenders, sizes, quick, writeDocs, json, absurd }: Arguments): Promise<void> {
  const began = performance.now()
  const seconds = () => Math.round((performance.now() - began) / 1000)
  const say = (text: string) => process.stderr.write(`${String(seconds()).padStart(4)} s  ${text}\n`)
  if (names[0] === 'weather') return runWeather(json, say)
  if (names[0] === 'workflow') return runWorkflow({ quick, json, absurd }, say)
  if (names[0] === 'inspect') return runInspect({ quick, json })
  if (names[0] === 'outbox') return runOutbox({ quick, json })
  await installPackages(say)
  const node = contendersNode()
  const server = await BenchServer.start(18)
  if (!quick) await server.fillLog()
  const results = new Results()
  const descriptions = new Map<ContenderName, Description>()
  const bench: Bench = {
    server,
    sizes,
    results,
    contenders,
    descriptions,
    say,
    start: (contender, execArgv) => new Remote(contender, node, execArgv),
  }
  try {
    const described = contenders.map(
      async (contender) =>
        [contender, await withProcess(bench, contender, (remote) => remote.call('describe', {}))] as const,
    )
    for (const [contender, description] of await Promise.all(described)) descriptions.set(contender, description)
    for (const name of names) await SCENARIOS[name]!(bench)
  } finally {
    await server.stop()
  }
  const machine = { processor: cpus()[0]?.model ?? '', cores: availableParallelism(), memoryGiB: totalmem() / 2 ** 30 }
  const report: Report = {
    machine,
    versions: { postgres: server.version, node: descriptions.get(contenders[0]!)!.node },
    quick,
    seconds: seconds(),
    sizes,
    settings: Object.fromEntries(descriptions),
    figures: results.figures,
    ratios: ratios(results),
  }
  console.log([...figureTables(report.figures), ratioTable(report.ratios)].map(forTerminal).join('\n\n'))
  const { postgres, node: version } = report.versions
  console.log(`\nPostgreSQL ${postgres}, Node ${version}, ${machine.cores} cores, ${report.seconds} s.`)
  if (writeDocs) await writeDocumentation(report)
  if (json) console.log(JSON.stringify(report))
}

await runOrExplain(() => run(readArguments()), USAGE)
