// `npm run chaos:jobs`: workers, claims by hand and producers, while processes are killed, replies are cut, servers crash
// and fail over, and people pause, cancel and redrive. Exits 0 if every rule held, 1 if one did not, 3 if the run proves
// nothing because something that should happen never did.
//
// plan.ts makes the plan from the seed, drive.ts carries it out, checker.ts judges the evidence.
import { randomInt } from 'node:crypto'
import { rmSync } from 'node:fs'
import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { check } from './checker.ts'
import { countsOf, missing } from './coverage.ts'
import { drive, evidenceIn, LEASE_MS, SWEEP_MS } from './drive.ts'
import { historyOf } from './history.ts'
import { type Plan, planOf } from './plan.ts'
import { isPlant, PLANTS } from './plants/all.ts'
import { tryPlants } from './plants/try.ts'
import { EXIT_CODES, jsonOf, type Result, reportOf, verdictOf } from './report.ts'

const USAGE = `Usage: npm run chaos:jobs -- [--seed <number>] [--minutes <number>] [--json] [--again <directory>] [--plant <name>] [--plants [name …]]
  --seed     the same plan again; a random one unless given
  --minutes  for how long things break; 3 unless given. With less than 1, not everything has to have happened
  --json     a last line for programs
  --again    check the files of a run that is over, in this directory
  --plant    with a bug of this name in the library or the database: see what the checker says
  --plants   each of them in a short run, or those named: which are caught?
Plants: ${Object.keys(PLANTS).join(', ')}`

/** Fewer than this, and rare things may not happen. */
const MINUTES_TO_SEE_ALL = 1
const MAX_MINUTES = 600

interface Arguments {
  readonly seed: number
  readonly minutes: number
  readonly json: boolean
  readonly plant: string | undefined
  readonly plants: readonly string[] | undefined
  readonly again: string | undefined
}

function readArguments(): Arguments | undefined {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        seed: { type: 'string' },
        minutes: { type: 'string' },
        json: { type: 'boolean', default: false },
        plant: { type: 'string' },
        plants: { type: 'boolean', default: false },
        again: { type: 'string' },
      },
    })
    const seed = values.seed === undefined ? randomInt(1_000_000) : Number(values.seed)
    const minutes = Number(values.minutes ?? 3)
    const plants = values.plants ? (positionals.length > 0 ? positionals : Object.keys(PLANTS)) : undefined
    const isRight =
      Number.isSafeInteger(seed) &&
      minutes > 0 &&
      minutes <= MAX_MINUTES &&
      (values.plant === undefined || isPlant(values.plant)) &&
      (plants === undefined ? positionals.length === 0 : plants.every(isPlant))
    const { json, plant, again } = values
    return isRight ? { seed, minutes, json, plant, plants, again } : undefined
  } catch {
    return undefined
  }
}

async function main(): Promise<number> {
  const given = readArguments()
  if (given === undefined) {
    console.error(USAGE)
    return 2
  }
  const { seed, minutes, json, plant, plants, again } = given
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort(signal))
  const { signal } = interrupted
  try {
    if (plants !== undefined) return await tryPlants(plants, seed, signal)
    const bug = plant === undefined ? {} : { plant }
    const commandOf = ({ seed, durationMs }: Plan) =>
      `npm run chaos:jobs -- --seed ${seed} --minutes ${durationMs / 60_000}${plant === undefined ? '' : ` --plant ${plant}`}`
    const planned = planOf(seed, minutes * 60_000)
    if (again === undefined) console.log(commandOf(planned))
    const say = (line: string) => console.log(`${(performance.now() / 1_000).toFixed(1).padStart(7)} s  ${line}`)
    const { plan, lines, rows, directory } =
      again === undefined ? { plan: planned, ...(await drive(planned, { say, signal, ...bug })) } : evidenceIn(again)
    const history = historyOf(plan, lines, rows, { leaseMs: LEASE_MS, sweepMs: SWEEP_MS })
    const counts = countsOf(history)
    const wasLong = plan.durationMs >= MINUTES_TO_SEE_ALL * 60_000
    const result: Result = {
      plan,
      command: commandOf(plan),
      directory,
      counts,
      findings: check(history),
      missing: wasLong ? missing(counts) : [],
    }
    console.log(`\n${reportOf(result)}`)
    if (again === undefined && verdictOf(result) === 'held') rmSync(directory, { recursive: true })
    if (json) console.log(jsonOf(result))
    return EXIT_CODES[verdictOf(result)]
  } catch (error) {
    if (!signal.aborted) throw error
    return 128 + constants.signals[signal.reason as NodeJS.Signals]
  }
}

process.exitCode = await main()
