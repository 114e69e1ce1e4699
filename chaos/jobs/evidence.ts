/** The state of the database after a run, from the public views and the tables of the workloads. */
import type pg from 'pg'

export interface JobRow {
  readonly id: string
  readonly w: string
  readonly queue: string
  readonly kind: string
  readonly status: string
  readonly reason: string | null
  readonly attempts: number
  readonly maxAttempts: number
  readonly generation: number
  /** The worker that had it last, by its id. */
  readonly claimedBy: string | null
  readonly endedAt: number | null
}

export interface AttemptRow {
  readonly job: string
  readonly generation: number
  readonly attempt: number
  readonly outcome: string
  /** By the clock of the database, as all times here. */
  readonly startedAt: number
  readonly endedAt: number
  readonly worker: string
}

export interface ActionRow {
  readonly at: number
  readonly action: string
  readonly outcome: string
  readonly job: string | null
}

/** A worker as the registry has it. */
export interface WorkerRow {
  readonly id: string
  readonly label: string
}

export interface Rows {
  readonly jobs: readonly JobRow[]
  readonly attempts: readonly AttemptRow[]
  readonly actions: readonly ActionRow[]
  readonly workers: readonly WorkerRow[]
  /** The rows of each table in the schema `chaos`. */
  readonly tables: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>
}

const MS = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`

const JOBS = `
  select id::text, payload ->> 'w' as w, queue, kind, status::text, reason, attempts, max_attempts as "maxAttempts",
    lease_generation::float8 as generation, claimed_by::text as "claimedBy", ${MS('completed_at')} as "endedAt"
  from leasehold.jobs order by id`
const ATTEMPTS = `
  select job_id::text as job, lease_generation::float8 as generation, attempt, outcome::text, worker_id::text as worker,
    ${MS('started_at')} as "startedAt", ${MS('ended_at')} as "endedAt"
  from leasehold.attempts order by job_id, started_at, ended_at`
const ACTIONS = `
  select ${MS('at')} as at, action, outcome, job_id::text as job from leasehold.operator_actions order by id`
const WORKERS = 'select id::text, label from leasehold.workers'

export async function gather(pool: pg.Pool): Promise<Rows> {
  const all = async <Row>(sql: string): Promise<Row[]> => (await pool.query(sql)).rows
  const names = await all<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'chaos' order by 1`,
  )
  const tables: Record<string, Readonly<Record<string, unknown>>[]> = {}
  for (const { name } of names) tables[name] = await all(`select * from chaos.${name}`)
  return {
    jobs: await all<JobRow>(JOBS),
    attempts: await all<AttemptRow>(ATTEMPTS),
    actions: await all<ActionRow>(ACTIONS),
    workers: await all<WorkerRow>(WORKERS),
    tables,
  }
}
