/** What is executed, and what is on record of it. */
import { type Finding, finding } from '../../common/finding.ts'
import type { StepRow } from '../evidence.ts'
import { type Leaf, leavesOf } from '../program.ts'
import { type Execution, type Expected, type Facts, groupedBy, hasEnded, keyOf, keyOfRecord, story } from './history.ts'

/** The clocks of the database and of a process are that of the machine, read at different moments. */
const CLOCK_MS = 3
/** A fault may show a while later: a lease is 2 s, a statement that was held arrives after 5 s. */
const LATER_MS = 6_000
/** A process that stood still for so long may have lost its lease. */
const STALL_MS = 500

interface Recorded {
  readonly of: Expected
  readonly step: StepRow
  readonly key: string
}

function recordedIn({ expected }: Facts): Recorded[] {
  return expected.flatMap((of) =>
    of.steps.filter(hasEnded).flatMap((step) => {
      const key = keyOfRecord(of.run, of.program, step)
      return key === undefined ? [] : [{ of, step, key }]
    }),
  )
}

export function effects(facts: Facts): Finding {
  const times = groupedBy(facts.rows.effects, ({ run, name, i }) => keyOf(run, 'tx', name, i))
  const due = recordedIn(facts).filter(({ key }) => key.split(' ')[1] === 'tx')
  const known = new Set(due.map(({ key }) => key))
  const broken = [
    ...due.flatMap(({ key, of }) => {
      const found = times.get(key)?.length ?? 0
      return found === 1 ? [] : [story(facts, of.run, `${key}: ${found} effects`)]
    }),
    ...[...times.keys()].filter((key) => !known.has(key)).map((key) => `${key}: an effect, and no record`),
  ]
  return finding('a tx step happens once: its effect is there exactly if its record is', due.length, broken)
}

/** Another process, or a later slice, had the run by then: it was stale, and did not know. */
function isStale({ slices }: Facts, { run, slice, at }: Execution): boolean {
  return (
    slice === undefined || slices.get(run)!.some((other) => other !== slice && other.at > slice.at && other.at <= at)
  )
}

export function notAgain(facts: Facts): Finding {
  const recorded = recordedIn(facts)
  const broken = recorded.flatMap(({ of, step, key }) =>
    (facts.executionsOf.get(key) ?? [])
      .filter((each) => each.at > step.recordedAt + CLOCK_MS && !isStale(facts, each))
      .map((each) => story(facts, of.run, `${key} was on record, and began again as ${each.token}`)),
  )
  return finding('a step that is on record does not execute again', recorded.length, broken)
}

/** Within a slice, behind a failed attempt. In a later slice, if a fault explains that the earlier one had no end. */
export function againOnlyAfterTrouble(facts: Facts): Finding {
  let checked = 0
  const broken: string[] = []
  for (const [key, all] of facts.executionsOf) {
    for (const [index, again] of all.entries()) {
      const before = all[index - 1]
      if (before === undefined) continue
      checked++
      const isRetry = before.threw && before.slice === again.slice
      const isResumed = before.threw && before.slice !== again.slice
      if (isRetry || isResumed || isExplained(facts, before, again)) continue
      broken.push(
        story(facts, again.run, `${key} began again as ${again.token}, after ${before.token} without a fault`),
      )
    }
  }
  return finding('a step executes again only after a failure, a crash or a lost lease', checked, broken)
}

function isExplained({ lines }: Facts, before: Execution, again: Execution): boolean {
  if (before.slice === again.slice) return false
  const from = before.at - LATER_MS
  return lines.some(({ e, at, p, from: began, to, bit, who, ms, signal }) => {
    if (e === 'fault') return bit === true && (began as number) <= again.at && (to as number) >= from
    if (e === 'struck') return at <= again.at && at >= from - (signal === 'SIGSTOP' ? LATER_MS : 0)
    if (e === 'end') return who === before.process && at <= again.at && at >= from
    return (
      e === 'stall' && p === before.process && (ms as number) >= STALL_MS && at >= from && at <= again.at + LATER_MS
    )
  })
}

export function knownResults(facts: Facts): Finding {
  const recorded = recordedIn(facts)
  const broken = recorded.flatMap(({ of, step, key }) => {
    const wrong = wrongRecord(facts, of, step, key)
    return wrong === undefined ? [] : [story(facts, of.run, `${key}: ${wrong}`)]
  })
  return finding(
    'a record has the known result, of an execution that had ended, by the worker that recorded it',
    recorded.length,
    broken,
  )
}

function wrongRecord(
  { executionsOf }: Facts,
  { run, program }: Expected,
  step: StepRow,
  key: string,
): string | undefined {
  const leaf = leavesOf(program).find(({ leaf }) => key.split(' ')[2]!.startsWith(`${leaf.name}.`))!.leaf as Leaf
  if (step.state === 'failed') return `it has failed for good: ${JSON.stringify(step)}`
  const { v, by } = (step.result ?? {}) as { readonly v?: string; readonly by?: string }
  const value = `${run}/${key.split(' ')[2]}`
  const expected = step.type === 'compensation' ? `undone ${value}` : value
  if (v !== expected) return `its result is ${JSON.stringify(step.result)}, expected ${expected}`
  const execution = executionsOf.get(key)?.find(({ token }) => token === by)
  if (execution === undefined) return `there is no execution ${by}`
  if (execution.threw) return `${by} had thrown`
  if (execution.endedAt === undefined || execution.endedAt > step.recordedAt + CLOCK_MS) return `${by} had not ended`
  if (execution.process !== step.worker) return `${by} is recorded by ${step.worker}`
  const fails = leaf.do !== 'step' ? undefined : step.type === 'compensation' ? leaf.undo!.fails : leaf.fails
  return fails === undefined || step.attempt === fails + 1
    ? undefined
    : `attempt ${step.attempt} after ${fails} failures`
}

export function oneWorker(facts: Facts): Finding {
  const broken = facts.expected.flatMap((each) => {
    const wrong = staleRecord(facts, each)
    return wrong === undefined ? [] : [story(facts, each.run, wrong)]
  })
  return finding(
    'one worker at a time records the steps of a run: a stale one records nothing',
    facts.expected.length,
    broken,
  )
}

function staleRecord(facts: Facts, { run, program, steps }: Expected): string | undefined {
  const workers = new Map<number, string>()
  let last: StepRow | undefined
  for (const step of steps) {
    const what = `${step.type} ${step.name} of claim ${step.gen}`
    const holder = workers.get(step.gen) ?? step.workerId
    workers.set(step.gen, holder)
    if (holder !== step.workerId) return `${what} is by ${step.worker}, others by another worker`
    if (last !== undefined && step.gen < last.gen) return `${what} stands behind one of claim ${last.gen}`
    last = step
    const key = keyOfRecord(run, program, step)
    const by = (step.result as { readonly by?: string } | null)?.by
    const execution = facts.executionsOf.get(key ?? '')?.find(({ token }) => token === by)
    // Another slice had begun: the run was claimed again before this was recorded.
    if (execution !== undefined && isStale(facts, { ...execution, at: step.recordedAt - CLOCK_MS })) {
      return `${what} is by ${by}, and the run had another worker by then`
    }
  }
  return undefined
}

/** What a completed run has on record, and the order of the rows of each step. */
export function timelines(facts: Facts): Finding {
  const broken = facts.expected.flatMap((each) => {
    const wrong = wrongTimeline(each)
    return wrong === undefined ? [] : [story(facts, each.run, wrong)]
  })
  return finding(
    'timelines are whole: each step of a completed run once, its attempts before',
    facts.expected.length,
    broken,
  )
}

function wrongTimeline({ row, program, steps }: Expected): string | undefined {
  if (row === undefined) return undefined
  const late = steps.find(({ startedAt, recordedAt }) => startedAt > recordedAt + CLOCK_MS)
  if (late !== undefined) return `${late.name} is recorded before it began`
  for (const [key, all] of groupedBy(steps, ({ type, name, nth }) => `${type} ${name}.${nth}`)) {
    const rows = all.toSorted((one, other) => one.place - other.place)
    const ended = rows.findIndex(hasEnded)
    if (ended >= 0 && ended < rows.length - 1) return `${key} has a record behind its end`
    const attempts = rows.filter(({ state }) => state === 'retrying').map(({ attempt }) => attempt)
    if (attempts.some((attempt, index) => attempt !== index + 1)) return `${key} has the attempts ${attempts}`
    if (rows.filter(({ state }) => state === 'waiting').length > 1) return `${key} has begun twice`
  }
  if (row.status !== 'completed') return undefined
  const expected = leavesOf(program).flatMap(({ leaf, times }) =>
    Array.from({ length: times }, (_, index) => recordName(leaf, index + 1)),
  )
  const found = steps
    .filter(hasEnded)
    .map(({ type, name, nth }) => (type === 'sleep' ? 'sleep' : `${type} ${name}.${nth}`))
  const [one, other] = [expected.toSorted().join(), found.toSorted().join()]
  return one === other ? undefined : `on record are ${other}, expected ${one}`
}

function recordName(leaf: Leaf, i: number): string {
  const { name } = leaf
  switch (leaf.do) {
    case 'sleep':
      return 'sleep'
    case 'any':
      return `any ${name} came|${name} late.1`
    case 'job':
    case 'child':
      return `job ${name}.${i}`
    case 'signal':
      return `signal ${name}.${i}`
    default:
      return `step ${name}.${i}`
  }
}
