/** How runs start and end. */
import { type Finding, finding } from '../../common/finding.ts'
import type { StepRow } from '../evidence.ts'
import { waitsForEver } from '../plan.ts'
import { endOf, type Leaf, leavesOf, type Program } from '../program.ts'
import { type Expected, type Facts, groupedBy, hasEnded, keyOf, story } from './history.ts'

export function ends(facts: Facts): Finding {
  const broken = facts.expected.flatMap((each) => {
    const wrong = wrongEnd(each)
    return wrong === undefined ? [] : [story(facts, each.run, wrong)]
  })
  return finding('every run whose start committed ends as its program has it', facts.expected.length, broken)
}

function wrongEnd({ row, program, mayBeCancelled, planned }: Expected): string | undefined {
  if (row === undefined) return 'there is no such run'
  const { status } = row
  const end = planned !== undefined && waitsForEver(planned) ? 'waits' : endOf(program)
  const right = { returns: 'completed', fails: 'dead_letter', compensates: 'cancelled', waits: 'cancelled' }[end]
  if (status !== right && !(status === 'cancelled' && mayBeCancelled)) {
    return `${status}, expected ${right}: ${JSON.stringify(row.error)}`
  }
  const reasons = mayBeCancelled ? ['operator', 'planned'] : ['planned']
  if (status === 'cancelled' && !reasons.includes(String(row.error)))
    return `cancelled for ${JSON.stringify(row.error)}`
  if (status === 'dead_letter' && !JSON.stringify(row.error).includes('planned')) {
    return `a dead letter for ${JSON.stringify(row.error)}`
  }
  return undefined
}

export function results(facts: Facts): Finding {
  const completed = facts.expected.filter(({ row }) => row?.status === 'completed')
  const broken = completed.flatMap((each) => {
    const expected = JSON.stringify(returnedBy(each.program, each, facts))
    const found = JSON.stringify(each.row!.result)
    return expected === found ? [] : [story(facts, each.run, `returned ${found}, expected ${expected}`)]
  })
  return finding('a completed run has exactly the result of its program', completed.length, broken)
}

/** What the program returns. Of several waits, the first is the one on record. */
function returnedBy(program: Program, of: Expected, facts: Facts): unknown {
  switch (program.do) {
    case 'sequence':
    case 'parallel':
      return program.of.map((each) => returnedBy(each, of, facts))
    case 'loop':
      return Array.from({ length: program.times }, (_, index) => leafValue(program.of, index + 1, of, facts))
    case 'note':
    case 'commit':
      return null
    case 'fail':
    case 'compensate':
      return 'never'
    default:
      return leafValue(program, 1, of, facts)
  }
}

function leafValue(leaf: Leaf, i: number, { run, steps }: Expected, facts: Facts): unknown {
  const v = `${run}/${leaf.name}.${i}`
  switch (leaf.do) {
    case 'step':
    case 'tx':
      return v
    case 'sleep':
      return 'slept'
    case 'signal':
      return `signal ${i}`
    case 'any':
      return winnerOf(steps, leaf.name) ?? 'no winner on record'
    case 'job':
      return leaf.fails ? 'failed' : { v }
    case 'child': {
      const child = facts.expected.find((each) => each.run === `${run}/${leaf.name}`)
      if (child === undefined) return 'no child'
      return endOf(leaf.program) === 'returns' ? returnedBy(leaf.program, child, facts) : 'failed'
    }
  }
}

/** Of run.any(), as it is on record. */
export function winnerOf(steps: readonly StepRow[], name: string): string | undefined {
  const row = steps.find(({ type, name: named }) => type === 'any' && named === `${name} came|${name} late`)
  return (row?.result as { readonly name?: string } | undefined)?.name
}

export function rolledBack(facts: Facts): Finding {
  const started = new Set(facts.rows.started)
  const undone = facts.plan.steps.filter(({ name }) => !started.has(name)).map(({ name }) => name)
  const isUndone = (run: string) => undone.includes(run.split('/')[0]!)
  const broken = [
    ...facts.rows.runs.filter(({ run }) => isUndone(run)).map(({ run, status }) => `${run}: ${status}`),
    ...[...facts.slices.keys()].filter(isUndone).map((run) => `${run}: it was executed`),
  ]
  return finding('a start that was rolled back leaves no run', undone.length, broken)
}

export function sameId(facts: Facts): Finding {
  const starts = facts.lines.filter(({ e }) => e === 'started')
  const others = facts.lines.filter(({ e }) => e === 'other')
  const broken = [
    ...[...groupedBy(starts, ({ w }) => w!)].flatMap(([run, all]) => {
      const jobs = new Set(all.map(({ job }) => job))
      return jobs.size > 1 ? [`${run}: started as the jobs ${[...jobs].join(', ')}`] : []
    }),
    ...others
      .filter(({ outcome }) => outcome !== 'conflict')
      .map(({ w, outcome }) => `${w}: another input: ${outcome}`),
    ...[...groupedBy(facts.rows.runs, ({ run }) => run)].flatMap(([run, all]) =>
      all.length > 1 ? [`${run}: ${all.length} runs`] : [],
    ),
  ]
  return finding('a second start of an id is the same run, or a conflict', starts.length + others.length, broken)
}

/** Of a run that was undone: all that is on record behind the last commit, the last first, each once. */
export function compensations(facts: Facts): Finding {
  const undone = facts.expected.filter(({ row }) => row?.status === 'cancelled' || row?.status === 'dead_letter')
  let checked = 0
  const broken = undone.flatMap((each) => {
    const due = dueOf(each)
    checked += due.length
    const recorded = each.steps.filter((step) => step.type === 'compensation' && hasEnded(step)).map(({ name }) => name)
    const begun: string[] = []
    for (const { run, type, name, i } of facts.executions) {
      const undo = i === 1 ? name : `${name}#${i}`
      if (run === each.run && type === 'undo' && !begun.includes(undo)) begun.push(undo)
    }
    if (recorded.join() !== due.join()) return [story(facts, each.run, `undone: ${recorded}, expected: ${due}`)]
    return begun.join() === due.join() ? [] : [story(facts, each.run, `undone as ${begun}, expected: ${due}`)]
  })
  const others = facts.expected.filter(({ row, steps }) => {
    return row?.status === 'completed' && steps.some(({ type }) => type === 'compensation')
  })
  return finding('what was done is undone in reverse order, each step once', checked, [
    ...broken,
    ...others.map(({ run }) => story(facts, run, 'completed, and something was undone')),
  ])
}

function dueOf({ program, steps, run }: Expected): string[] {
  const recorded = new Set(steps.filter(hasEnded).map(({ type, name, nth }) => keyOf(run, type, name, nth)))
  const undoable = new Set(behindCommit(program, run, recorded).flatMap(undoableIn))
  return steps
    .filter(({ type, state, name }) => type === 'step' && state === 'recorded' && undoable.has(name))
    .map(({ name, nth }) => (nth === 1 ? name : `${name}#${nth}`))
    .reverse()
}

function undoableIn(program: Program): string[] {
  return leavesOf(program).flatMap(({ leaf }) => (leaf.do === 'step' && leaf.undo !== undefined ? [leaf.name] : []))
}

/** A commit follows a step at once, so it is reached when that step is on record. */
function behindCommit(program: Program, run: string, recorded: ReadonlySet<string>): readonly Program[] {
  if (program.do !== 'sequence') return [program]
  const at = program.of.findIndex((each) => each.do === 'commit')
  const before = at < 0 ? undefined : program.of[at - 1]
  const isReached = before?.do === 'step' && recorded.has(keyOf(run, 'step', before.name, 1))
  return isReached ? program.of.slice(at + 1) : program.of
}
