// A made-up history of a chaos run of workflows, as it should be. Tests change it.
import type { Line } from '../../chaos/common/witness.ts'
import type { EffectRow, JobRow, RunRow, SignalRow, StepRow } from '../../chaos/workflow/evidence.ts'
import type { Plan, Step } from '../../chaos/workflow/plan.ts'
import { loop, type Program, parallel, sequence } from '../../chaos/workflow/program.ts'

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

const PROGRAMS: Readonly<Record<string, Program>> = {
  // Completes, with everything that a run can do.
  a: sequence(
    loop(2, { do: 'step', name: 'step1', ms: 0, fails: 0 }),
    { do: 'tx', name: 'tx2', fails: 0 },
    loop(2, { do: 'signal', name: 'signal3' }),
    { do: 'sleep', name: 'sleep4', ms: 500 },
    parallel({ do: 'any', name: 'any5', ms: 300 }, { do: 'any', name: 'any6', ms: 300 }),
    { do: 'job', name: 'job7', fails: false },
    { do: 'child', name: 'child8', program: sequence({ do: 'step', name: 'step9', ms: 0, fails: 0 }) },
  ),
  // Fails, and is undone behind its commit.
  b: sequence(
    { do: 'step', name: 'step1', ms: 0, fails: 0, undo: { fails: 0 } },
    { do: 'commit' },
    { do: 'step', name: 'step2', ms: 0, fails: 1, undo: { fails: 0 } },
    loop(2, { do: 'step', name: 'step3', ms: 0, fails: 0, undo: { fails: 0 } }),
    { do: 'fail', name: 'fail' },
  ),
  // Waits for ever, until it is cancelled.
  c: sequence({ do: 'step', name: 'step1', ms: 0, fails: 0, undo: { fails: 0 } }, { do: 'signal', name: 'signal2' }),
  undone: sequence({ do: 'step', name: 'step1', ms: 0, fails: 0 }),
}
const signalled = (name: string, i: number) => ({
  act: 'signal' as const,
  afterMs: 0,
  name,
  i,
  via: 'own' as const,
  twice: i === 1,
})
const ACTIONS: Readonly<Record<string, Step['actions']>> = {
  a: [signalled('signal3', 1), signalled('signal3', 2), { act: 'mail', afterMs: 0, name: 'any5' }],
  c: [{ act: 'cancel', afterMs: 0 }],
}
const JOBS: Readonly<Record<string, string>> = { a: '1', b: '2', c: '3', 'a/child8': '11' }

export class Draft {
  plan: Plan = {
    seed: 1,
    durationMs: 60_000,
    faults: [],
    steps: Object.entries(PROGRAMS).map(([name, program]) => ({
      name,
      atMs: 0,
      starter: 0,
      fate: name === 'undone' ? 'rollback' : 'commit',
      holdMs: 0,
      program,
      actions: ACTIONS[name] ?? [],
    })),
  }
  lines: Mutable<Line>[] = []
  started = ['a', 'b', 'c']
  sent = [{ run: 'a', name: 'any5' }]
  runs: Mutable<RunRow>[] = []
  steps: Mutable<StepRow>[] = []
  signals: Mutable<SignalRow>[] = []
  jobs: Mutable<JobRow>[] = []
  effects: Mutable<EffectRow>[] = []
  #executions = 0

  note(p: string, at: number, e: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.lines.push({ p, n: this.lines.length, at, e, ...details })
  }

  slice(run: string, at: number, p = 'worker-0.0', s = 1): void {
    this.note(p, at, 'slice', { w: run, s })
  }

  /** Begins at this time and takes 10 ms. Returns its token. */
  execute(run: string, type: string, name: string, at: number, more: Partial<Executed> = {}): string {
    const { i = 1, attempt = 1, e = 'ends', p = 'worker-0.0', s = 1 } = more
    const x = `${p}/${++this.#executions}`
    const line = { w: run, s, x, type, name, i, attempt }
    this.note(p, at, 'begins', line)
    this.note(p, at + 10, e, line)
    return x
  }

  record(run: string, type: string, name: string, at: number, more: Partial<StepRow> = {}): Mutable<StepRow> {
    const job = JOBS[run]!
    const place = this.steps.filter((step) => step.job === job).length + 1
    const step: Mutable<StepRow> = {
      job,
      place,
      type,
      name,
      nth: 1,
      state: 'recorded',
      attempt: 1,
      startedAt: at - 15,
      recordedAt: at,
      wakeAt: null,
      child: null,
      signal: null,
      result: null,
      gen: 10,
      workerId: 'id-0',
      worker: 'worker-0.0',
      ...more,
    }
    this.steps.push(step)
    return step
  }

  /** Executed from this time on, and recorded after 20 ms. */
  done(run: string, type: 'step' | 'tx' | 'undo', name: string, at: number, i = 1, attempt = 1): void {
    const by = this.execute(run, type, name, at, { i, attempt })
    const v = `${run}/${name}.${i}`
    if (type === 'undo') {
      const undone = { result: { v: `undone ${v}`, by } }
      this.record(run, 'compensation', i === 1 ? name : `${name}#${i}`, at + 20, undone)
    } else this.record(run, 'step', name, at + 20, { nth: i, attempt, result: { v, by } })
  }

  step(run: string, name: string, nth = 1): Mutable<StepRow> {
    return this.steps.find((step) => step.job === JOBS[run] && step.name === name && step.nth === nth)!
  }

  run(run: string): Mutable<RunRow> {
    return this.runs.find((row) => row.run === run)!
  }

  history() {
    const { plan, started, sent, runs, steps, signals, jobs, effects } = this
    const lines = this.lines.toSorted((one, other) => one.at - other.at || one.n - other.n)
    return { plan, lines, rows: { started, sent, runs, steps, signals, jobs, effects } }
  }
}

interface Executed {
  readonly i: number
  readonly attempt: number
  readonly e: 'ends' | 'throws'
  readonly p: string
  readonly s: number
}

export function asItShouldBe(): Draft {
  const draft = new Draft()
  for (const [run, job] of Object.entries(JOBS)) {
    if (!run.includes('/')) draft.note('starter-4.4', 900, 'started', { w: run, job, outcome: 'created' })
  }
  draft.note('starter-4.4', 950, 'started', { w: 'a', job: '1', outcome: 'existing' })
  draft.note('starter-4.4', 960, 'other', { w: 'a', outcome: 'conflict' })
  draft.note('starter-4.4', 970, 'rolled back', { w: 'undone' })
  draft.note('starter-5.5', 980, 'dies', { w: 'dead' })
  completes(draft)
  fails(draft)
  isCancelled(draft)
  const killed = { struck: 'SIGKILL', code: null, signal: 'SIGKILL', tookMs: 5, stderr: '' }
  draft.note('harness', 9_000, 'end', { who: 'worker-1.1', ...killed })
  draft.note('harness', 9_000, 'end', { ...killed, who: 'starter-5.5', struck: undefined })
  draft.note('harness', 60_000, 'end', { who: 'worker-0.0', struck: 'SIGTERM', code: 0, signal: null, tookMs: 900 })
  return draft
}

function completes(draft: Draft): void {
  const signal = (id: string, name: string, payload: unknown, consumed = true) =>
    draft.signals.push({ id, job: '1', name, payload, consumed })
  draft.slice('a', 1_000)
  draft.done('a', 'step', 'step1', 1_010, 1)
  draft.done('a', 'step', 'step1', 1_040, 2)
  draft.done('a', 'tx', 'tx2', 1_070)
  draft.effects.push({ run: 'a', name: 'tx2', i: 1, execution: 'worker-0.0/3' })
  for (const i of [1, 2]) {
    signal(`${20 + i}`, 'signal3', { i })
    draft.note('starter-4.4', 1_080, 'signal', { w: 'a', name: 'signal3', i, outcome: 'sent', times: 0 })
    draft.record('a', 'signal', 'signal3', 1_100 + i, { nth: i, signal: `${20 + i}`, result: { i } })
  }
  draft.note('starter-4.4', 1_090, 'signal', { w: 'a', name: 'signal3', i: 1, outcome: 'duplicate', times: 1 })
  draft.note('starter-4.4', 1_090, 'signal', { w: 'a', name: 'signal3', outcome: 'rolled back' })
  draft.note('worker-0.0', 1_110, 'sleeps', { w: 'a', s: 1, name: 'sleep4', i: 1, ms: 500 })
  draft.record('a', 'sleep', 'sleep', 1_112, { state: 'waiting', wakeAt: 1_612 })
  draft.slice('a', 1_630, 'worker-0.0', 2)
  draft.note('worker-0.0', 1_631, 'slept', { w: 'a', s: 2, name: 'sleep4', i: 1 })
  draft.record('a', 'sleep', 'sleep', 1_630, { gen: 11 })
  draft.record('a', 'sleep', 'sleep', 1_640, { nth: 2, state: 'waiting', wakeAt: 1_940, gen: 11 })
  draft.record('a', 'sleep', 'sleep', 1_640, { nth: 3, state: 'waiting', wakeAt: 1_940, gen: 11 })
  signal('23', 'any5', { i: 1 })
  signal('24', 'any5', { i: 1 }, false)
  draft.sent.push({ run: 'a', name: 'any5' })
  for (const [name, winner, at, id] of [
    ['any5', 'any5 came', 1_700, '23'],
    ['any6', 'any6 late', 1_950, null],
  ] as const) {
    const result = { name: winner, result: null, error: null }
    draft.record('a', 'any', `${name} came|${name} late`, at, { gen: 11, signal: id, result })
    for (const s of [2, 3]) draft.note('worker-0.0', at + s, 'first', { w: 'a', s, name, winner })
  }
  draft.record('a', 'job', 'job7', 2_000, { state: 'waiting', child: '10', gen: 11 })
  draft.jobs.push({ job: '10', run: 'a', name: 'job7', i: 1, status: 'completed' })
  signal('25', 'job 10', { status: 'completed' })
  draft.record('a', 'job', 'job7', 2_100, { signal: '25', gen: 11 })
  draft.record('a', 'job', 'child8', 2_110, { state: 'waiting', child: '11', gen: 11 })
  draft.slice('a/child8', 2_120)
  draft.done('a/child8', 'step', 'step9', 2_130)
  draft.runs.push({ run: 'a/child8', job: '11', status: 'completed', result: ['a/child8/step9.1'], error: null })
  signal('26', 'job 11', { status: 'completed' })
  draft.record('a', 'job', 'child8', 2_200, { signal: '26', gen: 12, workerId: 'id-1', worker: 'worker-1.1' })
  const result = [
    ['a/step1.1', 'a/step1.2'],
    'a/tx2.1',
    ['signal 1', 'signal 2'],
    'slept',
    ['any5 came', 'any6 late'],
    { v: 'a/job7.1' },
    ['a/child8/step9.1'],
  ]
  draft.runs.push({ run: 'a', job: '1', status: 'completed', result, error: null })
}

function fails(draft: Draft): void {
  draft.slice('b', 3_000)
  draft.done('b', 'step', 'step1', 3_010)
  draft.execute('b', 'step', 'step2', 3_040, { e: 'throws' })
  draft.record('b', 'step', 'step2', 3_055, { state: 'retrying', wakeAt: 3_070 })
  draft.done('b', 'step', 'step2', 3_075, 1, 2)
  draft.done('b', 'step', 'step3', 3_100, 1)
  // Its worker is killed before the record, and another one executes it again.
  draft.note('harness', 3_145, 'struck', { who: 'worker-1.1', signal: 'SIGKILL' })
  draft.slice('b', 3_120, 'worker-1.1', 1)
  draft.execute('b', 'step', 'step3', 3_130, { i: 2, p: 'worker-1.1' })
  draft.slice('b', 6_000)
  draft.done('b', 'step', 'step3', 6_010, 2)
  draft.record('b', 'step', 'fail', 6_040, { state: 'failed' })
  draft.done('b', 'undo', 'step3', 6_050, 2)
  draft.done('b', 'undo', 'step3', 6_080, 1)
  draft.done('b', 'undo', 'step2', 6_110)
  draft.runs.push({ run: 'b', job: '2', status: 'dead_letter', result: null, error: { message: 'planned' } })
}

function isCancelled(draft: Draft): void {
  draft.slice('c', 4_000)
  draft.done('c', 'step', 'step1', 4_010)
  draft.note('starter-4.4', 4_100, 'asks', { w: 'c', what: 'cancel' })
  draft.note('starter-4.4', 4_110, 'cancel', { w: 'c', outcome: 'requested' })
  draft.slice('c', 4_200)
  draft.done('c', 'undo', 'step1', 4_210)
  draft.runs.push({ run: 'c', job: '3', status: 'cancelled', result: null, error: 'operator' })
}
