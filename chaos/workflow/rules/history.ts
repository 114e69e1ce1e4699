/** What the rules look at: the plan, the lines of all processes, and the rows that are left; and what follows from them. */
import type { Line } from '../../common/witness.ts'
import type { Rows, RunRow, StepRow } from '../evidence.ts'
import type { Plan, Step } from '../plan.ts'
import { leavesOf, type Program } from '../program.ts'

export interface History {
  readonly plan: Plan
  readonly lines: readonly Line[]
  readonly rows: Rows
}

/** A run that must be there: its start has committed, or its parent has it on record. */
export interface Expected {
  readonly run: string
  readonly program: Program
  /** Undefined: there is none. */
  readonly row: RunRow | undefined
  /** In the order in which they were recorded. */
  readonly steps: readonly StepRow[]
  /** Its cancellation was asked for, or that of a run that started it. */
  readonly mayBeCancelled: boolean
  /** Of a run that a starter has started. */
  readonly planned: Step | undefined
}

/** One execution of a function of a step, a tx step or a compensation. */
export interface Execution {
  readonly key: string
  readonly run: string
  readonly type: string
  readonly name: string
  readonly i: number
  readonly attempt: number
  readonly token: string
  readonly process: string
  readonly at: number
  readonly slice: Slice | undefined
  readonly endedAt: number | undefined
  readonly threw: boolean
}

/** One execution of the code of a run, in one process. */
export interface Slice {
  readonly run: string
  readonly process: string
  readonly s: number
  readonly at: number
}

export interface Facts extends History {
  readonly expected: readonly Expected[]
  /** By run. */
  readonly slices: ReadonlyMap<string, readonly Slice[]>
  readonly executions: readonly Execution[]
  /** By keyOf(): those of one step, in the order in which they began. */
  readonly executionsOf: ReadonlyMap<string, readonly Execution[]>
}

export function factsOf({ plan, lines, rows }: History): Facts {
  const slices = lines
    .filter(({ e }) => e === 'slice')
    .map(({ w, p, s, at }): Slice => ({ run: w!, process: p, s: s as number, at }))
  const executions = executionsIn(lines, slices)
  return {
    plan,
    lines,
    rows,
    expected: expectedOf({ plan, lines, rows }),
    slices: groupedBy(slices, ({ run }) => run),
    executions,
    executionsOf: groupedBy(executions, ({ key }) => key),
  }
}

function expectedOf({ plan, lines, rows }: History): Expected[] {
  const started = new Set(rows.started)
  const rowOf = new Map(rows.runs.map((row) => [row.run, row]))
  const stepsOf = groupedBy(rows.steps, ({ job }) => job)
  const cancelled = new Set(lines.filter(({ e, what }) => e === 'asks' && what === 'cancel').map(({ w }) => w!))
  const all: Expected[] = []
  const add = (run: string, program: Program, mayBeCancelled: boolean, planned?: Step) => {
    const row = rowOf.get(run)
    const steps = row === undefined ? [] : (stepsOf.get(row.job) ?? [])
    all.push({ run, program, row, steps, mayBeCancelled, planned })
    for (const { leaf } of leavesOf(program)) {
      const isStarted = steps.some(({ type, name, child }) => type === 'job' && name === leaf.name && child !== null)
      if (leaf.do === 'child' && isStarted) add(`${run}/${leaf.name}`, leaf.program, mayBeCancelled || isUndone(row))
    }
  }
  for (const step of plan.steps)
    if (started.has(step.name)) add(step.name, step.program, cancelled.has(step.name), step)
  return all
}

function isUndone(row: RunRow | undefined): boolean {
  return row?.status === 'cancelled' || row?.status === 'dead_letter'
}

function executionsIn(lines: readonly Line[], slices: readonly Slice[]): Execution[] {
  const slicesOf = groupedBy(slices, ({ run, process, s }) => `${run} ${process} ${s}`)
  const ends = new Map(lines.filter(({ e }) => e === 'ends' || e === 'throws').map((line) => [line.x as string, line]))
  return lines
    .filter(({ e }) => e === 'begins')
    .map((line): Execution => {
      const [type, name, i, token] = [line.type, line.name, line.i, line.x] as [string, string, number, string]
      const end = ends.get(token)
      return {
        key: keyOf(line.w!, type, name, i),
        run: line.w!,
        type,
        name,
        i,
        attempt: line.attempt as number,
        token,
        process: line.p,
        at: line.at,
        slice: slicesOf.get(`${line.w} ${line.p} ${line.s}`)?.findLast((slice) => slice.at <= line.at),
        endedAt: end?.at,
        threw: end?.e === 'throws',
      }
    })
}

export function keyOf(run: string, type: string, name: string, i: number): string {
  return `${run} ${type} ${name}.${i}`
}

/** The record of a step under the same key: compensations are numbered in their name. */
export function keyOfRecord(run: string, program: Program, { type, name, nth }: StepRow): string | undefined {
  if (type === 'compensation') {
    const [base, i = '1'] = name.split('#')
    return keyOf(run, 'undo', base!, Number(i))
  }
  if (type !== 'step') return undefined
  const leaf = leavesOf(program).find(({ leaf }) => leaf.name === name)?.leaf
  return leaf === undefined ? undefined : keyOf(run, leaf.do, name, nth)
}

export function hasEnded({ state }: StepRow): boolean {
  return state === 'recorded' || state === 'failed'
}

const LINES = 24

/** A violation with what the processes noted about the run. */
export function story({ lines }: Pick<History, 'lines'>, run: string, what: string): string {
  const about = lines.filter(({ w, e }) => w === run && e !== 'did')
  const shown = about.slice(-LINES).map(({ at, p, e, s, type, name, i, attempt, outcome }) => {
    const detail = [
      s === undefined ? '' : `slice ${s}`,
      type,
      name,
      i,
      attempt === undefined ? '' : `attempt ${attempt}`,
      outcome,
    ]
    return `${new Date(at).toISOString().slice(11, 23)} ${p.padEnd(14)} ${e} ${detail.filter((each) => each !== undefined && each !== '').join(' ')}`
  })
  return [`${run}: ${what}`, ...shown].join('\n')
}

export function groupedBy<Item>(items: readonly Item[], of: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const group = groups.get(of(item))
    if (group === undefined) groups.set(of(item), [item])
    else group.push(item)
  }
  return groups
}
