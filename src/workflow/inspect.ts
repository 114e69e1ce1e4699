/** Looking at one run. */
import { checkText } from '../core/check.ts'
import type { ErrorDescription } from '../core/error-description.ts'
import { connectionOf } from '../db/connection.ts'
import type { Lane, Row } from '../db/lane.ts'
import { getJobs, type JobSnapshot } from '../inspect/jobs.ts'
import type { JobId } from '../jobs/job.ts'
import { FIND_RUN, READ_SIGNALS, READ_STEPS, READ_WAIT } from './inspect.sql.ts'
import type { EntryState, EntryType } from './journal.ts'
import type { Workflow } from './workflow.ts'

/** One line of a run's timeline. */
export interface RecordedStep {
  readonly type: EntryType
  readonly name: string
  /** Counts those of one name, from 1. */
  readonly nth: number
  readonly state: EntryState
  readonly attempt: number
  readonly startedAt: Date
  readonly recordedAt: Date
  /** When a sleep ends, or the next attempt starts. */
  readonly wakesAt: Date | null
  /** The job or run that it started. */
  readonly childId: JobId | null
  readonly result: unknown
  readonly error: ErrorDescription | null
  /** The worker that recorded it, and the generation of its claim. */
  readonly worker: string | null
  readonly generation: number
}

export interface SentSignal {
  readonly name: string
  readonly payload: unknown
  readonly sentAt: Date
  readonly consumed: boolean
}

export interface RunSnapshot<Result = unknown> extends JobSnapshot<Result> {
  readonly runId: string
  /** Names of the signals that it waits for; `job 17` for the end of a job. */
  readonly waitingFor: readonly string[]
  readonly steps: readonly RecordedStep[]
  readonly signals: readonly SentSignal[]
}

/** A workflow. */
export interface Named {
  readonly name: string
}

/** A run with its timeline. Undefined: unknown id, or past its retention. */
export function getRun<Input, Parsed, Result>(
  leasehold: object,
  workflow: Workflow<Input, Parsed, Result>,
  runId: string,
): Promise<RunSnapshot<Result> | undefined>
export function getRun(leasehold: object, workflow: Named, runId: string): Promise<RunSnapshot | undefined>
export async function getRun(leasehold: object, workflow: Named, runId: string): Promise<RunSnapshot | undefined> {
  const { lane } = connectionOf('getRun', leasehold)
  const jobId = await findRun(lane, workflow, runId)
  const [job] = jobId === undefined ? [] : await getJobs(lane, [jobId])
  if (job === undefined) return undefined
  const steps = await lane.run<StepColumn>(READ_STEPS, [jobId])
  const signals = await lane.run<'name' | 'payload' | 'consumed' | 'sent_ms'>(READ_SIGNALS, [jobId])
  const [wait] = await lane.run<'waiting_for'>(READ_WAIT, [jobId])
  return {
    ...job,
    runId,
    waitingFor: namesIn(wait?.waiting_for),
    steps: steps.map(toStep),
    signals: signals.map((row) => ({
      name: row.name!,
      payload: json(row.payload),
      sentAt: new Date(Number(row.sent_ms)),
      consumed: row.consumed === 't',
    })),
  }
}

/** The job that carries a run. */
export async function findRun(lane: Lane, { name }: Named, runId: string): Promise<JobId | undefined> {
  const [row] = await lane.run<'job_id'>(FIND_RUN, [name, checkText('runId', runId, 1_000)])
  return row?.job_id as JobId | undefined
}

type StepColumn =
  | 'name'
  | 'nth'
  | 'type'
  | 'state'
  | 'attempt'
  | 'started_ms'
  | 'recorded_ms'
  | 'wake_ms'
  | 'child_id'
  | 'result'
  | 'error'
  | 'worker_label'
  | 'lease_generation'

function toStep(row: Row<StepColumn>): RecordedStep {
  return {
    type: row.type as EntryType,
    name: row.name!,
    nth: Number(row.nth),
    state: row.state as EntryState,
    attempt: Number(row.attempt),
    startedAt: new Date(Number(row.started_ms)),
    recordedAt: new Date(Number(row.recorded_ms)),
    wakesAt: row.wake_ms === null ? null : new Date(Number(row.wake_ms)),
    childId: row.child_id as JobId | null,
    result: json(row.result),
    error: json(row.error) as ErrorDescription | null,
    worker: row.worker_label,
    generation: Number(row.lease_generation),
  }
}

function json(text: string | null): unknown {
  return text === null ? null : JSON.parse(text)
}

/** Of an array as Postgres prints it. */
function namesIn(text: string | null | undefined): string[] {
  if (text == null || text === '{}') return []
  return [...text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/g)].map(([, quoted, plain]) =>
    quoted === undefined ? plain! : quoted.replaceAll(/\\(.)/g, '$1'),
  )
}
