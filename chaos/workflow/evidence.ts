/** The state of the database after a run, from the views and from what starters and workers stored. */
import type { World } from './world.ts'

export interface RunRow {
  readonly run: string
  readonly job: string
  readonly status: string
  readonly result: unknown
  readonly error: unknown
}

export interface StepRow {
  readonly job: string
  readonly place: number
  readonly type: string
  readonly name: string
  readonly nth: number
  readonly state: 'recorded' | 'failed' | 'retrying' | 'waiting'
  readonly attempt: number
  readonly startedAt: number
  readonly recordedAt: number
  readonly wakeAt: number | null
  readonly child: string | null
  readonly signal: string | null
  readonly result: unknown
  readonly gen: number
  readonly workerId: string
  /** Its label, which is the name of the process. */
  readonly worker: string | null
}

export interface SignalRow {
  readonly id: string
  readonly job: string
  readonly name: string
  readonly payload: unknown
  readonly consumed: boolean
}

/** A job that a run has started. */
export interface JobRow {
  readonly job: string
  readonly run: string
  readonly name: string
  readonly i: number
  readonly status: string
}

export interface EffectRow {
  readonly run: string
  readonly name: string
  readonly i: number
  readonly execution: string
}

export interface Rows {
  /** Runs whose start committed. */
  readonly started: readonly string[]
  /** Signals without a key that committed. */
  readonly sent: readonly { readonly run: string; readonly name: string }[]
  readonly runs: readonly RunRow[]
  readonly steps: readonly StepRow[]
  readonly signals: readonly SignalRow[]
  readonly jobs: readonly JobRow[]
  readonly effects: readonly EffectRow[]
}

const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`

const QUERIES: Readonly<Record<keyof Rows, string>> = {
  started: 'select distinct run from chaos.started',
  sent: 'select run, name from chaos.sent',
  runs: `select run_id as run, job_id::text as job, status, result, error from leasehold.runs where workflow = 'chaos' order by job_id`,
  steps: `select job_id::text as job, place, type, name, nth, state::text, attempt, ${ms('started_at')} as "startedAt",
      ${ms('recorded_at')} as "recordedAt", ${ms('wake_at')} as "wakeAt", child_id::text as child, signal_id::text as signal,
      result, lease_generation::float8 as gen, worker_id::text as "workerId", worker_label as worker
    from leasehold.steps order by job_id, place`,
  signals: 'select id::text, job_id::text as job, name, payload, consumed from leasehold.signal s order by s.id',
  jobs: `select id::text as job, payload ->> 'run' as run, payload ->> 'name' as name, (payload ->> 'i')::int as i, status::text
    from leasehold.jobs where kind = 'work' order by id`,
  effects: 'select run, name, i, execution from chaos.effect order by position',
}

export async function gather({ admin }: Pick<World, 'admin'>): Promise<Rows> {
  const found = await Promise.all(
    Object.entries(QUERIES).map(async ([name, sql]) => [name, (await admin.query(sql)).rows] as const),
  )
  const rows = Object.fromEntries(found) as unknown as Omit<Rows, 'started'> & { readonly started: { run: string }[] }
  return { ...rows, started: rows.started.map(({ run }) => run) }
}
