// `npm run chaos:sqs`: consumers, a publisher, recovery and workers, while processes are killed, replies are cut and
// messages come twice. Exits 0 if every promise of docs/sqs.md held, and everything that should happen did.
//
// plan.ts makes the plan from the seed, drive.ts carries it out, checker.ts judges the evidence.
import { randomInt } from 'node:crypto'
import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { startPostgres } from '../../tools/postgres.ts'
import { check } from './checker.ts'
import { checkCoverage } from './coverage.ts'
import { drive } from './drive.ts'
import { planOf } from './plan.ts'
import { reportOf } from './report.ts'

const USAGE = `Usage: npm run chaos:sqs -- [--seed <number>] [--minutes <number>] [--broken]
  --seed     the same plan again; a random one unless given
  --minutes  for how long things break; 3 unless given. With less than 2, not everything has to have happened
  --broken   each queue is handled wrongly: see what the checker says`

const MESSAGES_PER_MINUTE = 120
/** Fewer than this, and rare things may not happen. */
const MINUTES_TO_SEE_ALL = 2
// The data lives for one run.
const FAST = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '200' }

function readArguments(): { seed: number; minutes: number; broken: boolean } | undefined {
  try {
    const { values } = parseArgs({
      options: { seed: { type: 'string' }, minutes: { type: 'string' }, broken: { type: 'boolean', default: false } },
    })
    const seed = values.seed === undefined ? randomInt(1_000_000) : Number(values.seed)
    const minutes = Number(values.minutes ?? 3)
    return Number.isSafeInteger(seed) && minutes > 0 && minutes <= 600
      ? { seed, minutes, broken: values.broken }
      : undefined
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
  const { seed, minutes, broken } = given
  const command = `npm run chaos:sqs -- --seed ${seed} --minutes ${minutes}${broken ? ' --broken' : ''}`
  console.log(command)
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => interrupted.abort(signal))
  const plan = planOf(seed, minutes * 60_000, Math.max(1, Math.round(minutes * MESSAGES_PER_MINUTE)))
  const postgres = await startPostgres({ settings: FAST })
  try {
    const { url } = postgres
    const say = (line: string) => console.log(`${performance.now().toFixed(0).padStart(7)} ms  ${line}`)
    const evidence = await drive(plan, { url, broken, say, signal: interrupted.signal })
    const findings = check(plan, evidence)
    if (minutes >= MINUTES_TO_SEE_ALL) findings.push(checkCoverage(plan, evidence.counts))
    console.log(`\n${reportOf(plan, evidence.counts, findings)}\n`)
    const isWell = findings.every((finding) => finding.broken.length === 0)
    console.log(isWell ? `All promises held: ${command}` : `Not all promises held. Again: ${command}`)
    return isWell ? 0 : 1
  } catch (error) {
    if (!interrupted.signal.aborted) throw error
    return 128 + constants.signals[interrupted.signal.reason as NodeJS.Signals]
  } finally {
    await postgres.stop()
  }
}

process.exitCode = await main()
