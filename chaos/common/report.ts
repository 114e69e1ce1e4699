/** The result of a run, for people and for programs. */
import type { Finding } from './finding.ts'
import { countLines, findingLines } from './report-lines.ts'

export type Verdict = 'held' | 'broken' | 'void'

/** Its exit codes. 2 is for a wrong command, and for a program that is missing. */
export const EXIT_CODES: Readonly<Record<Verdict, number>> = { held: 0, broken: 1, void: 3 }

export interface Result {
  readonly plan: {
    readonly seed: number
    readonly durationMs: number
    readonly steps: readonly unknown[]
    readonly faults: readonly { readonly fault: string }[]
  }
  readonly command: string
  /** Of the witness files. */
  readonly directory: string
  readonly counts: ReadonlyMap<string, number>
  readonly findings: readonly Finding[]
  /** Expected events that never happened. */
  readonly missing: readonly string[]
}

export function verdictOf({ findings, missing }: Pick<Result, 'findings' | 'missing'>): Verdict {
  if (findings.some(({ broken }) => broken.length > 0)) return 'broken'
  return missing.length > 0 ? 'void' : 'held'
}

export function reportOf(result: Result): string {
  const { plan, counts, findings, missing, command, directory } = result
  const tried = new Map<string, number>()
  for (const { fault } of plan.faults) tried.set(fault, (tried.get(fault) ?? 0) + 1)
  const others = [...counts].filter(([name]) => !name.startsWith('fault: '))
  const faults = [...tried].map(([fault, times]) => `${fault} ${counts.get(`fault: ${fault}`) ?? 0}/${times}`)
  const verdict = verdictOf(result)
  return [
    `Seed ${plan.seed}, ${plan.durationMs / 60_000} min: ${plan.steps.length} pieces of work, ${plan.faults.length} faults`,
    '',
    ...countLines(new Map(others)),
    '',
    '  Faults that bit, of those tried',
    ...columns(faults.sort()),
    '',
    '  Rules, and how many things each was checked on',
    ...findingLines(findings),
    '',
    ...ENDINGS[verdict](missing),
    ...(verdict === 'held' ? [] : [`Witness files: ${directory}`]),
    `Run it again:  ${command}`,
  ].join('\n')
}

const ENDINGS: Readonly<Record<Verdict, (missing: readonly string[]) => string[]>> = {
  held: () => ['HELD: every rule held, and everything that should happen did.'],
  broken: () => ['BROKEN: not every rule held.'],
  void: (missing) => ['VOID: every rule held, but some things that should happen never did:', ...columns(missing)],
}

export function jsonOf(result: Result): string {
  const { plan, counts, findings, missing, directory } = result
  const broken = findings.filter((each) => each.broken.length > 0)
  return JSON.stringify({
    verdict: verdictOf(result),
    seed: plan.seed,
    minutes: plan.durationMs / 60_000,
    counts: Object.fromEntries(counts),
    rules: findings.length,
    broken: broken.map(({ promise, broken }) => ({ promise, times: broken.length, first: broken[0] })),
    missing,
    directory,
  })
}

const COLUMNS = 3
const COLUMN_WIDTH = 32

function columns(items: readonly string[]): string[] {
  const lines: string[] = []
  for (let at = 0; at < items.length; at += COLUMNS)
    lines.push(
      `    ${items
        .slice(at, at + COLUMNS)
        .map((item) => item.padEnd(COLUMN_WIDTH))
        .join('')}`.trimEnd(),
    )
  return lines
}
