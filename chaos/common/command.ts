/** A chaos command: reads its arguments, makes the plan, carries it out, judges it and reports. Returns the exit code. */
import { rmSync } from 'node:fs'
import { constants } from 'node:os'
import { ProgramMissingError } from '../../tools/debian.ts'
import { readArguments } from './arguments.ts'
import { EXIT_CODES, jsonOf, type Result, reportOf, verdictOf } from './report.ts'

/** Fewer than this, and rare things may not happen. */
const MINUTES_TO_SEE_ALL = 1

export interface DriveOptions {
  /** The name of a bug. */
  readonly plant?: string
  /** For everything to come to its end, once it is calm. */
  readonly settleMs?: number
  readonly say?: (line: string) => void
  readonly signal?: AbortSignal
}

export interface ChaosCommand<Plan extends Result['plan'], Evidence extends { readonly directory: string }> {
  /** As in `npm run`. */
  readonly name: string
  /** The names of planted bugs. */
  readonly plants: readonly string[]
  planOf(seed: number, durationMs: number): Plan
  drive(plan: Plan, options: DriveOptions): Promise<Evidence>
  /** Of a run that is over. */
  evidenceIn(directory: string): Evidence & { readonly plan: Plan }
  judge(plan: Plan, evidence: Evidence): Pick<Result, 'counts' | 'findings' | 'missing'>
  tryPlants(names: readonly string[], seed: number, signal: AbortSignal): Promise<number>
}

function usageOf(name: string, plants: readonly string[]): string {
  return `Usage: npm run ${name} -- [--seed <number>] [--minutes <number>] [--json] [--again <directory>] [--plant <name>] [--plants [name …]]
  --seed     the same plan again; a random one unless given
  --minutes  for how long things break; 3 unless given. With less than 1, not everything has to have happened
  --json     a last line for programs
  --again    check the files of a run that is over, in this directory
  --plant    with a bug of this name in the library or the database: see what the checker says
  --plants   each of them in a short run, or those named: which are caught?
Plants: ${plants.join(', ')}`
}

export async function runCommand<Plan extends Result['plan'], Evidence extends { readonly directory: string }>(
  chaos: ChaosCommand<Plan, Evidence>,
): Promise<number> {
  const given = readArguments(chaos.plants)
  if (given === undefined) {
    console.error(usageOf(chaos.name, chaos.plants))
    return 2
  }
  const { seed, minutes, json, plant, plants, again } = given
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort(signal))
  const { signal } = interrupted
  try {
    if (plants !== undefined) return await chaos.tryPlants(plants, seed, signal)
    const bug = plant === undefined ? {} : { plant }
    const commandOf = ({ seed, durationMs }: Plan) =>
      `npm run ${chaos.name} -- --seed ${seed} --minutes ${durationMs / 60_000}${plant === undefined ? '' : ` --plant ${plant}`}`
    const planned = chaos.planOf(seed, minutes * 60_000)
    if (again === undefined) console.log(commandOf(planned))
    const say = (line: string) => console.log(`${(performance.now() / 1_000).toFixed(1).padStart(7)} s  ${line}`)
    const { plan, ...evidence } =
      again === undefined
        ? { plan: planned, ...(await chaos.drive(planned, { say, signal, ...bug })) }
        : chaos.evidenceIn(again)
    const { counts, findings, missing } = chaos.judge(plan, evidence as unknown as Evidence)
    const wasLong = plan.durationMs >= MINUTES_TO_SEE_ALL * 60_000
    const result: Result = {
      plan,
      command: commandOf(plan),
      directory: evidence.directory,
      counts,
      findings,
      missing: wasLong ? missing : [],
    }
    console.log(`\n${reportOf(result)}`)
    if (again === undefined && verdictOf(result) === 'held') rmSync(evidence.directory, { recursive: true })
    if (json) console.log(jsonOf(result))
    return EXIT_CODES[verdictOf(result)]
  } catch (error) {
    if (error instanceof ProgramMissingError) {
      console.error(error.message)
      return 2
    }
    if (!signal.aborted) throw error
    return 128 + constants.signals[signal.reason as NodeJS.Signals]
  }
}
