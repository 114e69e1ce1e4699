/** Combines the witness files and the database: by work, by process, by time. It judges nothing. */

import type { Line } from '../common/witness.ts'
import type { AttemptRow, JobRow, Rows } from './evidence.ts'
import type { Plan } from './plan.ts'
import type { Script } from './workload.ts'

export interface Span {
  readonly from: number
  readonly to: number
}

/** One handler at work. */
export interface HandlerRun {
  readonly w: string
  readonly job: string
  readonly gen: number
  readonly process: string
  readonly startedAt: number
  /** When it ended, or its process did. */
  readonly endedAt: number
  readonly abortedAt: number | undefined
  /** `returned`, the name of the error it threw, or `killed`. */
  readonly how: string
}

export interface Work {
  readonly w: string
  readonly workload: string
  readonly script: Script
  readonly lines: readonly Line[]
  /** From the first request to the reply that it is stored; undefined without such a reply. */
  readonly acked: Span | undefined
  readonly runs: readonly HandlerRun[]
  readonly rows: readonly JobRow[]
}

export interface ProcessFacts {
  readonly name: string
  /** When it was suspended, by its own record or because it was stopped. */
  readonly stalls: readonly Span[]
  readonly endedAt: number
  readonly isKilled: boolean
}

export interface History {
  readonly plan: Plan
  readonly rows: Rows
  readonly lines: readonly Line[]
  readonly leaseMs: number
  readonly sweepMs: number
  readonly works: ReadonlyMap<string, Work>
  readonly runs: readonly HandlerRun[]
  readonly processes: ReadonlyMap<string, ProcessFacts>
  /** Commits in these may be lost. */
  readonly tails: readonly Span[]
  /** The database was out of reach for some or all. */
  readonly hampered: readonly Span[]
  /** By job and generation, see `claimKey`. */
  readonly attempts: ReadonlyMap<string, readonly AttemptRow[]>
  readonly rowOf: ReadonlyMap<string, JobRow>
  /** The process of a worker, by its id in the database. */
  processOf(worker: string | null): ProcessFacts | undefined
  /** The work that a claim is of, if its handler has started or its job has a row. */
  workOf(job: string, gen?: number): string | undefined
}

export interface Times {
  readonly leaseMs: number
  readonly sweepMs: number
}

export function claimKey(job: string, gen: number): string {
  return `${job}/${gen}`
}

export function touches(spans: readonly Span[], from: number, to: number): boolean {
  return spans.some((span) => span.from <= to && from <= span.to)
}

export function historyOf(plan: Plan, lines: readonly Line[], rows: Rows, { leaseMs, sweepMs }: Times): History {
  const by = groupedBy(lines, ({ e }) => e)
  const lastAt = lines.at(-1)?.at ?? 0
  const processes = processesOf(by, lastAt)
  const runs = runsOf(by, processes, lastAt)
  const rowOf = new Map(rows.jobs.map((row) => [row.id, row]))
  const wOfClaim = new Map(runs.map(({ job, gen, w }) => [claimKey(job, gen), w]))
  const labels = new Map(rows.workers.map(({ id, label }) => [id, label]))
  const byPid = new Map((by.get('ready') ?? []).map(({ p, pid }) => [String(pid), p]))
  const spans = (e: string) => (by.get(e) ?? []).map(({ from, to }) => ({ from, to }) as Span)
  const hampering = (by.get('fault') ?? []).filter(({ hampers }) => hampers)
  const ownStalls = (by.get('stall') ?? []).filter(({ p }) => p === 'harness').map(stallSpan)
  return {
    plan,
    rows,
    lines,
    leaseMs,
    sweepMs,
    works: worksOf(plan, lines, runs, rows.jobs),
    runs,
    processes,
    tails: spans('tail'),
    // The proxy is in the harness: while that is suspended, nothing passes.
    hampered: [...hampering.map(({ from, to }) => ({ from, to }) as Span), ...ownStalls],
    attempts: groupedBy(rows.attempts, ({ job, generation }) => claimKey(job, generation)),
    rowOf,
    processOf: (worker) => {
      const label = labels.get(worker ?? '')
      if (label === undefined) return undefined
      // Claims by hand are identified by host and pid.
      return processes.get(label) ?? processes.get(byPid.get(label.slice(label.lastIndexOf(':') + 1)) ?? '')
    },
    workOf: (job, gen) => (gen === undefined ? undefined : wOfClaim.get(claimKey(job, gen))) ?? rowOf.get(job)?.w,
  }
}

function worksOf(
  plan: Plan,
  lines: readonly Line[],
  runs: readonly HandlerRun[],
  rows: readonly JobRow[],
): Map<string, Work> {
  const linesOf = groupedBy(lines, ({ w }) => w ?? '')
  const runsOf = groupedBy(runs, ({ w }) => w)
  const rowsOf = groupedBy(rows, ({ w }) => w)
  const works = new Map<string, Work>()
  for (const { w, workload, script } of plan.steps) {
    const own = linesOf.get(w) ?? []
    const acked = own.find(({ e }) => e === 'acked')
    const asked = own.find(({ e }) => e === 'asked')
    works.set(w, {
      w,
      workload,
      script,
      lines: own,
      acked: acked === undefined ? undefined : { from: asked?.at ?? acked.at, to: acked.at },
      runs: runsOf.get(w) ?? [],
      rows: rowsOf.get(w) ?? [],
    })
  }
  return works
}

function processesOf(by: ReadonlyMap<string, readonly Line[]>, lastAt: number): Map<string, ProcessFacts> {
  const struck = new Map((by.get('struck') ?? []).map((line) => [line.who as string, line]))
  const ends = new Map((by.get('end') ?? []).map((line) => [line.who as string, line]))
  const stopped = by.get('stopped') ?? []
  const stops = by.get('stops') ?? []
  const facts = (by.get('ready') ?? []).map(({ p }): [string, ProcessFacts] => {
    const isKilled = struck.get(p)?.signal === 'SIGKILL' || ends.get(p)?.struck === 'SIGKILL'
    const endedAt = (isKilled ? struck.get(p)?.at : undefined) ?? ends.get(p)?.at ?? lastAt
    const open = stops.filter(({ who, from }) => who === p && !stopped.some((s) => s.who === p && s.from === from))
    return [
      p,
      {
        name: p,
        isKilled,
        endedAt,
        stalls: [
          ...(by.get('stall') ?? []).filter((line) => line.p === p).map(stallSpan),
          ...stopped.filter(({ who }) => who === p).map(({ from, to }) => ({ from, to }) as Span),
          ...open.map(({ from }) => ({ from: from as number, to: endedAt })),
        ],
      },
    ]
  })
  return new Map(facts)
}

function runsOf(
  by: ReadonlyMap<string, readonly Line[]>,
  processes: ReadonlyMap<string, ProcessFacts>,
  lastAt: number,
): HandlerRun[] {
  const key = ({ p, job, gen }: Line) => `${p} ${job}/${gen}`
  const ended = groupedBy(by.get('ended') ?? [], key)
  const aborted = groupedBy(by.get('aborted') ?? [], key)
  return (by.get('started') ?? []).map((line) => {
    const end = ended.get(key(line))?.[0]
    return {
      w: line.w!,
      job: line.job!,
      gen: line.gen!,
      process: line.p,
      startedAt: line.at,
      endedAt: end?.at ?? processes.get(line.p)?.endedAt ?? lastAt,
      abortedAt: aborted.get(key(line))?.[0]?.at,
      how: (end?.how as string | undefined) ?? 'killed',
    }
  })
}

function stallSpan({ at, ms }: Line): Span {
  return { from: at - (ms as number), to: at }
}

export function groupedBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}
