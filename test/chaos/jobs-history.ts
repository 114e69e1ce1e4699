// A short, made-up history of a chaos run of jobs, correct in every detail. Tests change one thing, and the checker must
// report the broken rule.

import type { Line } from '../../chaos/common/witness.ts'
import type { AttemptRow, JobRow, Rows } from '../../chaos/jobs/evidence.ts'
import { type History, historyOf } from '../../chaos/jobs/history.ts'
import type { Plan } from '../../chaos/jobs/plan.ts'
import type { Script } from '../../chaos/jobs/workload.ts'

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/** Of the key user:1. */
export const USERS_BUCKET = 715

export const TIMES = { leaseMs: 2_000, sweepMs: 500 }

/** Parts that a test may change before the history is assembled. */
export class Draft {
  lines: Mutable<Line>[] = []
  steps: { atMs: number; w: string; workload: string; producer: number; script: Script }[] = []
  jobs: Mutable<JobRow>[] = []
  attempts: Mutable<AttemptRow>[] = []
  actions: Mutable<Rows['actions'][number]>[] = []
  tables: Record<string, Record<string, unknown>[]> = { business: [], done: [], charged: [], mark: [] }

  say(p: string, at: number, e: string, details: Record<string, unknown> = {}): void {
    this.lines.push({ p, n: this.lines.length, at, e, ...details })
  }

  /** Of an ordered queue, under a new claim: its record was lost with a lease. */
  runsAgain(job: string, at: number): void {
    const run = { w: `ordered-${job}`, job, gen: at }
    this.say('worker-1.1', at, 'started', run)
    this.say('worker-1.1', at + 50, 'ended', { ...run, how: 'returned' })
  }

  /** Enqueued and acknowledged, as a job with this id. */
  work(w: string, job: string, at: number, script: Script = {}): void {
    const workload = w.slice(0, w.lastIndexOf('-'))
    this.steps.push({ atMs: at, w, workload, producer: 0, script })
    this.say('producer-5.5', at, 'asked', { w })
    this.say('producer-5.5', at + 5, 'acked', { w, job, outcome: 'created' })
  }

  /** A handler from start to end, its events, and its records. The generation is the time of the claim. */
  run(p: string, w: string, job: string, at: number, outcome: string, how = 'returned'): void {
    const about = { w, job, gen: at }
    this.say(p, at + 5, 'started', { ...about, attempt: 1 })
    if (outcome === 'crashed') {
      this.attempt(p, job, at, 'crashed', at + 2_700)
      return
    }
    this.say(p, at + 50, 'ended', { ...about, how })
    this.say(p, at + 60, 'reported', { outcome, job, gen: at, attempt: 1 })
    const recorded = { retrying: 'failed', dead_letter: 'failed' }[outcome] ?? outcome
    this.attempt(p, job, at, recorded, at + 55)
  }

  attempt(p: string, job: string, generation: number, outcome: string, endedAt: number): void {
    this.attempts.push({ job, generation, attempt: 1, outcome, startedAt: generation, endedAt, worker: `id of ${p}` })
  }

  row(w: string, job: string, status: string, generation: number, more: Partial<JobRow> = {}): void {
    const kind = w.slice(0, w.lastIndexOf('-')).replace(' ', '_')
    const usual = { reason: null, attempts: 1, maxAttempts: 4, claimedBy: 'id of worker-1.1', endedAt: generation + 55 }
    this.jobs.push({ id: job, w, queue: kind, kind, status, generation, ...usual, ...more })
  }

  line(e: string, isMeant: (line: Line) => boolean = () => true): Mutable<Line> {
    const found = this.lines.find((line) => line.e === e && isMeant(line))
    if (found === undefined) throw new Error(`no line ${e}`)
    return found
  }

  drop(e: string, isMeant: (line: Line) => boolean = () => true): void {
    this.lines = this.lines.filter((line) => line.e !== e || !isMeant(line))
  }

  job(w: string): Mutable<JobRow> {
    return this.jobs.find((row) => row.w === w)!
  }

  history(): History {
    const plan: Plan = { seed: 1, durationMs: 60_000, steps: this.steps, faults: [] }
    const names = ['worker-0.0', 'worker-1.1', 'worker-2.2', 'hand-4.4']
    const rows: Rows = {
      jobs: this.jobs,
      attempts: this.attempts,
      actions: this.actions,
      workers: names.map((name) => ({ id: `id of ${name}`, label: name.startsWith('hand') ? 'host:44' : name })),
      tables: this.tables,
    }
    const lines = this.lines.toSorted((one, other) => one.at - other.at || one.n - other.n)
    return historyOf(plan, lines, rows, TIMES)
  }
}

/** Each workload, each outcome, a kill, a stop, a lost tail, and operator actions. */
export function asItShouldBe(): Draft {
  const draft = new Draft()
  for (const p of ['worker-0.0', 'worker-1.1', 'worker-2.2', 'hand-4.4', 'producer-5.5'])
    draft.say(p, 100, 'ready', { pid: p === 'hand-4.4' ? 44 : 1, heapMb: 10 })
  for (const [when, count] of [
    ['before', 20],
    ['calm', 22],
    ['after', 0],
  ] as const)
    draft.say('harness', when === 'before' ? 100 : 60_000, 'sessions', { when, count })
  for (const p of ['worker-1.1', 'worker-2.2', 'hand-4.4', 'producer-5.5']) {
    draft.say(p, 60_000, 'calm', { heapMb: 12 })
    draft.say('harness', 61_000, 'end', { who: p, struck: 'SIGTERM', code: 0, signal: null, tookMs: 400, stderr: '' })
  }

  draft.work('plain-1', '1', 1_000, { fails: 1 })
  draft.run('worker-0.0', 'plain-1', '1', 1_100, 'retrying', 'Error')
  draft.run('worker-1.1', 'plain-1', '1', 1_500, 'completed')
  draft.row('plain-1', '1', 'completed', 1_500, { attempts: 2 })

  // Killed with its worker, and reclaimed.
  draft.work('plain-2', '2', 2_000, { fails: 0 })
  draft.run('worker-0.0', 'plain-2', '2', 2_100, 'crashed')
  draft.say('harness', 2_500, 'struck', { who: 'worker-0.0', signal: 'SIGKILL' })
  draft.say('harness', 2_510, 'end', {
    who: 'worker-0.0',
    struck: 'SIGKILL',
    code: null,
    signal: 'SIGKILL',
    tookMs: 10,
    stderr: '',
  })
  draft.run('worker-1.1', 'plain-2', '2', 4_900, 'completed')
  draft.row('plain-2', '2', 'completed', 4_900)

  // Stopped past its lease: the next worker runs meanwhile, and the late outcome of the first is refused.
  draft.work('plain-3', '3', 10_000, { fails: 0 })
  draft.say('worker-2.2', 10_105, 'started', { w: 'plain-3', job: '3', gen: 10_100, attempt: 1 })
  draft.attempt('worker-2.2', '3', 10_100, 'crashed', 12_700)
  draft.say('harness', 10_200, 'stops', { who: 'worker-2.2', from: 10_190 })
  draft.run('worker-1.1', 'plain-3', '3', 12_800, 'completed')
  draft.say('harness', 14_000, 'stopped', { who: 'worker-2.2', from: 10_190, to: 14_000 })
  draft.say('worker-2.2', 14_010, 'ended', { w: 'plain-3', job: '3', gen: 10_100, how: 'returned' })
  draft.say('worker-2.2', 14_020, 'reported', {
    outcome: 'refused',
    tried: 'complete',
    job: '3',
    gen: 10_100,
    attempt: 1,
  })
  draft.row('plain-3', '3', 'completed', 12_800)

  draft.work('plain-4', '4', 15_000, { fails: 4 })
  draft.run('worker-1.1', 'plain-4', '4', 15_100, 'dead_letter', 'Error')
  draft.row('plain-4', '4', 'dead_letter', 15_100, { attempts: 4, reason: 'attempts_exhausted' })

  draft.work('keyed-5', '5', 16_000)
  draft.say('producer-5.5', 16_010, 'asked again', { w: 'keyed-5', job: '5', outcome: 'existing', isSame: true })
  draft.say('producer-5.5', 16_020, 'asked with another input', { w: 'keyed-5', outcome: 'conflict' })
  draft.run('hand-4.4', 'keyed-5', '5', 16_100, 'completed')
  draft.row('keyed-5', '5', 'completed', 16_100)

  draft.work('in transaction-6', '6', 17_000, { rollsBack: false })
  draft.tables.business!.push({ w: 'in transaction-6' })
  draft.run('worker-1.1', 'in transaction-6', '6', 17_100, 'completed')
  draft.row('in transaction-6', '6', 'completed', 17_100)
  draft.work('in transaction-7', '7', 17_200, { rollsBack: true })
  draft.drop('acked', ({ w }) => w === 'in transaction-7')
  draft.say('producer-5.5', 17_201, 'rolls back', { w: 'in transaction-7' })

  draft.work('complete within-8', '8', 18_000)
  draft.tables.done!.push({ w: 'complete within-8', job: '8', generation: '18100' })
  draft.run('worker-1.1', 'complete within-8', '8', 18_100, 'completed')
  draft.row('complete within-8', '8', 'completed', 18_100)

  draft.work('effects-9', '9', 19_000, { ifUnknown: 'stop' })
  draft.say('worker-1.1', 19_110, 'effect', { w: 'effects-9', job: '9', gen: 19_100 })
  draft.tables.charged!.push({ w: 'effects-9', job: '9' })
  draft.run('worker-1.1', 'effects-9', '9', 19_100, 'completed')
  draft.row('effects-9', '9', 'completed', 19_100)

  draft.work('steering-10', '10', 20_000, { mode: 'cancel' })
  draft.run('worker-1.1', 'steering-10', '10', 20_100, 'cancelled', 'Cancel')
  draft.row('steering-10', '10', 'cancelled', 20_100)
  draft.work('steering-11', '11', 21_000, { mode: 'snooze' })
  draft.run('worker-1.1', 'steering-11', '11', 21_100, 'snoozed', 'Snooze')
  draft.run('worker-1.1', 'steering-11', '11', 21_500, 'completed')
  draft.row('steering-11', '11', 'completed', 21_500)
  // Buried, redriven, completed.
  draft.work('steering-12', '12', 22_000, { mode: 'fatal' })
  draft.run('worker-1.1', 'steering-12', '12', 22_100, 'dead_letter', 'Fatal')
  draft.say('harness', 22_600, 'redrive', { job: '12', askedAt: 22_590 })
  draft.actions.push({ at: 22_595, action: 'redrive', outcome: 'pending', job: '12' })
  draft.run('worker-1.1', 'steering-12', '12', 22_700, 'completed')
  draft.row('steering-12', '12', 'completed', 22_700)
  draft.work('steering-13', '13', 23_000, { mode: 'waits' })
  draft.say('harness', 23_100, 'cancel', { job: '13', outcome: 'cancelled', askedAt: 23_090 })
  draft.actions.push({ at: 23_095, action: 'cancel', outcome: 'cancelled', job: '13' })
  draft.row('steering-13', '13', 'cancelled', 0)

  draft.work('many queues-14', '14', 24_000, { kind: 'many_1' })
  draft.say('harness', 26_000, 'pause', {
    what: 'queue',
    name: 'queue_1',
    outcome: 'paused',
    askedAt: 24_190,
    pausedAt: 24_200,
    resumedAt: 25_900,
  })
  draft.run('worker-1.1', 'many queues-14', '14', 24_100, 'released', 'STOPPING')
  draft.run('worker-1.1', 'many queues-14', '14', 26_100, 'completed')
  draft.row('many queues-14', '14', 'completed', 26_100, { queue: 'queue_1', kind: 'many_1' })
  draft.work('large-15', '15', 27_000)
  draft.run('worker-1.1', 'large-15', '15', 27_100, 'completed')
  draft.row('large-15', '15', 'completed', 27_100)
  draft.work('forgotten-16', '16', 28_000)
  draft.run('worker-1.1', 'forgotten-16', '16', 28_100, 'completed')
  draft.attempts.pop() // The job is not kept, so its attempt is not either.
  draft.work('expiring-17', '17', 29_000)
  draft.row('expiring-17', '17', 'dead_letter', 0, { reason: 'expired', claimedBy: null, endedAt: 31_000 })
  draft.say('worker-1.1', 31_010, 'buried', { job: '17', gen: 0, reason: 'expired' })

  for (const [job, at] of [
    ['19', 32_000],
    ['20', 32_500],
  ] as const) {
    draft.work(`ordered-${job}`, job, at, { key: 'key:1' })
    draft.run('worker-1.1', `ordered-${job}`, job, at + 600, 'completed')
    draft.row(`ordered-${job}`, job, 'completed', at + 600)
  }

  const half = (rest: number) => Array.from({ length: 1_024 }, (_, bucket) => bucket).filter((n) => n % 2 === rest)
  draft.say('worker-1.1', 200, 'gained', { buckets: half(USERS_BUCKET % 2), epoch: 2 })
  draft.say('worker-2.2', 200, 'gained', { buckets: half((USERS_BUCKET + 1) % 2), epoch: 2 })
  for (const [job, at] of [
    ['21', 34_000],
    ['22', 34_500],
  ] as const) {
    draft.work(`ring-${job}`, job, at, { key: 'user:1' })
    draft.run('worker-1.1', `ring-${job}`, job, at + 600, 'completed')
    draft.row(`ring-${job}`, job, 'completed', at + 600)
  }

  // Acknowledged, completed and lost.
  draft.say('harness', 42_000, 'tail', { from: 40_000, to: 42_000 })
  draft.work('plain-18', '18', 40_500, { fails: 0 })
  draft.run('worker-1.1', 'plain-18', '18', 40_600, 'completed')
  draft.attempts.pop()
  return draft
}
