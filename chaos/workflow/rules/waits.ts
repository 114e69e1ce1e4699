/** Signals, sleeps, the first of several waits, and jobs that runs start. */
import { type Finding, finding } from '../../common/finding.ts'
import type { SignalRow, StepRow } from '../evidence.ts'
import { leavesOf } from '../program.ts'
import { winnerOf } from './ends.ts'
import { type Expected, type Facts, groupedBy, hasEnded, story } from './history.ts'

/** The clocks of processes and of the database run alike, and are read at different moments. */
const CLOCK_MS = 5

function signalsOf({ rows }: Facts, { row }: Expected): SignalRow[] {
  return rows.signals.filter(({ job }) => job === row?.job)
}

/** Also the ends of jobs, which are signals. */
export function received(facts: Facts): Finding {
  let checked = 0
  const broken = facts.expected.flatMap((each) => {
    const signals = signalsOf(facts, each)
    const takers = groupedBy(
      each.steps.filter(({ signal }) => signal !== null),
      ({ signal }) => signal!,
    )
    checked += signals.length
    const wrong = signals.flatMap(({ id, name, consumed }) => {
      const times = takers.get(id)?.length ?? 0
      if (times > 1) return [`${name} (${id}) was received by ${times} steps`]
      return consumed === (times === 1)
        ? []
        : [`${name} (${id}) ${consumed ? 'is gone without a record' : 'may be received again'}`]
    })
    const known = new Set(signals.map(({ id }) => id))
    const unknown = [...takers.keys()].filter((id) => !known.has(id)).map((id) => `${id} was received and never sent`)
    return [...wrong, ...unknown].map((what) => story(facts, each.run, what))
  })
  return finding('a signal is received once, by a step on record, or stays', checked, broken)
}

export function inOrder(facts: Facts): Finding {
  let checked = 0
  const broken = facts.expected.flatMap((each) => {
    const placeOf = new Map(
      each.steps.flatMap(({ signal, place }) => (signal === null ? [] : [[signal, place] as const])),
    )
    return [...groupedBy(signalsOf(facts, each), ({ name }) => name)].flatMap(([name, signals]) => {
      // In the order of sending. What is left stands behind all that was received.
      const places = signals.map(({ id }) => placeOf.get(id) ?? Number.POSITIVE_INFINITY)
      checked += places.length
      const isRight = places.every((place, index) => index === 0 || places[index - 1]! <= place)
      return isRight ? [] : [story(facts, each.run, `${name} was received in the order of places ${places}`)]
    })
  })
  return finding('signals of a name are received in the order of sending', checked, broken)
}

/** Keys: once. Rolled back: never. Without a key: as often as committed. */
export function sentOnce(facts: Facts): Finding {
  const answers = facts.lines.filter(({ e }) => e === 'signal')
  const mails = groupedBy(facts.rows.sent, ({ run, name }) => `${run} ${name}`)
  let checked = 0
  const broken = facts.expected.flatMap((each) => {
    const { run, planned } = each
    if (planned === undefined) return []
    const rows = signalsOf(facts, each).filter(({ name }) => !name.startsWith('job '))
    checked += rows.length
    const wrong: string[] = []
    for (const [what, all] of groupedBy(rows, ({ name, payload }) => `${name}.${(payload as { i: number }).i}`)) {
      const [name, i] = [what.slice(0, what.lastIndexOf('.')), Number(what.slice(what.lastIndexOf('.') + 1))]
      const isMail = planned.actions.some((action) => action.act === 'mail' && action.name === name)
      const due = i < 1 ? 0 : isMail ? (mails.get(`${run} ${name}`)?.length ?? 0) : 1
      if (all.length !== due) wrong.push(`${what} is there ${all.length} times, expected ${due}`)
    }
    const found = new Set(rows.map(({ name, payload }) => `${name}.${(payload as { i: number }).i}`))
    for (const { w, name, i, outcome, times } of answers) {
      if (w !== run || i === undefined) continue
      const isThere = outcome === 'sent' || outcome === 'duplicate'
      if (isThere && !found.has(`${name}.${i}`)) wrong.push(`${name}.${i} was ${outcome}, and is not there`)
      if (times === 1 && outcome === 'sent') wrong.push(`${name}.${i} was sent again`)
    }
    return wrong.map((what) => story(facts, run, what))
  })
  return finding(
    'a signal is there once if its transaction committed; one sent with a known key is dropped',
    checked,
    broken,
  )
}

/** By the lines of the processes, and by the rows. */
export function sleeps(facts: Facts): Finding {
  const of = (e: string) =>
    groupedBy(
      facts.lines.filter((line) => line.e === e),
      ({ w, name, i }) => `${w} ${name}.${i}`,
    )
  const [began, ended] = [of('sleeps'), of('slept')]
  const early = [...ended].flatMap(([key, [first]]) => {
    const [begin] = began.get(key)!
    const took = first!.at - begin!.at
    return took >= (begin!.ms as number) - CLOCK_MS
      ? []
      : [story(facts, first!.w!, `${key} took ${took} of ${begin!.ms} ms`)]
  })
  const rows = facts.expected.flatMap(({ run, steps }) => {
    const sleeping = steps.filter(({ type }) => type === 'sleep')
    return sleeping.filter(hasEnded).flatMap((end) => {
      const begin = sleeping.find(({ nth, state }) => nth === end.nth && state === 'waiting')
      if (begin === undefined) return [story(facts, run, `sleep ${end.nth} has an end and no beginning`)]
      return end.recordedAt >= begin.wakeAt! - CLOCK_MS
        ? []
        : [story(facts, run, `sleep ${end.nth} ended before its time`)]
    })
  })
  return finding('a sleep ends not before its time', ended.size, [...early, ...rows])
}

export function firstStays(facts: Facts): Finding {
  const lines = groupedBy(
    facts.lines.filter(({ e }) => e === 'first'),
    ({ w, name }) => `${w} ${name}`,
  )
  let checked = 0
  const broken = facts.expected.flatMap(({ run, program, steps }) =>
    leavesOf(program).flatMap(({ leaf }) => {
      if (leaf.do !== 'any') return []
      const winner = winnerOf(steps, leaf.name)
      const seen = (lines.get(`${run} ${leaf.name}`) ?? []).map((line) => String(line.winner))
      if (winner === undefined)
        return seen.length === 0 ? [] : [story(facts, run, `${leaf.name}: ${seen[0]}, not on record`)]
      checked++
      const other = seen.find((each) => each !== winner)
      if (other !== undefined)
        return [story(facts, run, `${leaf.name}: ${winner} is on record, and the code got ${other}`)]
      const row = steps.find(({ type, name }) => type === 'any' && name.startsWith(`${leaf.name} came|`))!
      return isPossible(row, steps, winner.endsWith('came'))
        ? []
        : [story(facts, run, `${leaf.name}: ${winner} cannot be`)]
    }),
  )
  return finding('the first of several stays the first, and has happened', checked, broken)
}

/** The signal is consumed with the record, or a sleep that had begun before it is over. */
function isPossible(row: StepRow, steps: readonly StepRow[], came: boolean): boolean {
  if (came) return row.signal !== null
  const over = ({ type, state, wakeAt, place }: StepRow) =>
    type === 'sleep' && state === 'waiting' && place < row.place && wakeAt! <= row.recordedAt + CLOCK_MS
  return row.signal === null && steps.some(over)
}

export function startedOnce(facts: Facts): Finding {
  const jobs = groupedBy(facts.rows.jobs, ({ run, name, i }) => `${run} ${name}.${i}`)
  const runs = new Set(facts.expected.map(({ run }) => run))
  let checked = 0
  const known = new Set<string>()
  const broken = facts.expected.flatMap(({ run, program, steps, row, mayBeCancelled }) =>
    leavesOf(program).flatMap(({ leaf }) => {
      if (leaf.do !== 'job') return []
      return steps.flatMap(({ type, name, nth, child }) => {
        if (type !== 'job' || name !== leaf.name || child === null) return []
        checked++
        const key = `${run} ${name}.${nth}`
        known.add(key)
        const found = jobs.get(key) ?? []
        if (found.length !== 1) return [story(facts, run, `${key}: ${found.length} jobs`)]
        const [{ job, status }] = found as [(typeof found)[0]]
        if (job !== child) return [story(facts, run, `${key}: job ${job}, on record ${child}`)]
        const isUndone = mayBeCancelled || row?.status !== 'completed'
        const right = leaf.fails ? 'dead_letter' : 'completed'
        return status === right || (isUndone && status === 'cancelled')
          ? []
          : [story(facts, run, `${key} is ${status}`)]
      })
    }),
  )
  const unknown = [...jobs.keys()]
    .filter((key) => !known.has(key))
    .map((key) => `${key}: a job that no run has on record`)
  const strays = facts.rows.runs.filter(({ run }) => run.includes('/') && !runs.has(run))
  return finding('a job or a run is started once for each call, and is on record', checked, [
    ...broken,
    ...unknown,
    ...strays.map(({ run }) => `${run}: a run that no other has on record`),
  ])
}
