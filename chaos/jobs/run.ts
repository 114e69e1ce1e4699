// `npm run chaos:jobs`: workers, claims by hand and producers, while everything around them breaks.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { findingLines } from '../common/report-lines.ts'
import { check } from './checker.ts'
import { drive, LEASE_MS, SWEEP_MS } from './drive.ts'
import { historyOf } from './history.ts'
import { planOf } from './plan.ts'

const { values } = parseArgs({ options: { seed: { type: 'string' }, minutes: { type: 'string' } } })
const seed = Number(values.seed ?? randomInt(1_000_000))
const plan = planOf(seed, Number(values.minutes ?? 3) * 60_000)
const interrupted = new AbortController()
process.once('SIGINT', () => interrupted.abort())
const say = (line: string) => console.log(`${performance.now().toFixed(0).padStart(7)} ms  ${line}`)
const { lines, rows, directory } = await drive(plan, { say, signal: interrupted.signal })
const findings = check(historyOf(plan, lines, rows, { leaseMs: LEASE_MS, sweepMs: SWEEP_MS }))
console.log(directory, lines.length, rows.jobs.length)
console.log(findingLines(findings).join('\n'))
