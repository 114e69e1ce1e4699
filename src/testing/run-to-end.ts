/** Lets a job or a run go on until it has ended, without waiting. */
import { randomUUID } from 'node:crypto'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError, JobNotFoundError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { sleep } from '../core/timer.ts'
import { Connection } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { getJobs, type JobSnapshot } from '../inspect/jobs.ts'
import type { JobId } from '../jobs/job.ts'
import type { Handler } from '../worker/handler.ts'
import { Worker } from '../worker/worker.ts'
import { SESSIONS_LEFT } from './clock.sql.ts'
import type { TestClock } from './clock.ts'
import { Kill } from './kill-at.ts'
import { stepOver } from './step-over.ts'

const LOOK_AGAIN_MS = 5
/** Ten seconds: what lasts longer is a lock of the test's own. */
const LOOKS = 2_000

export interface RunToEndOptions {
  /** How far the clock is moved at most. Default: 365d. */
  readonly atMost?: Duration
  /** The process that begins dies at this point. Another one goes on, once the lease of the first has expired. */
  readonly kill?: Kill
}

export async function runToEnd(
  connection: Connection,
  clock: TestClock,
  handlers: readonly Handler[],
  jobId: JobId,
  options: RunToEndOptions,
): Promise<JobSnapshot> {
  checkOptions('runToEnd', options, ['atMost', 'kill'])
  const { kill } = options
  if (kill !== undefined && !(kill instanceof Kill)) {
    throw new InvalidOptionError('runToEnd.kill', 'it must be a killAt(…)')
  }
  const atMostMs = durationMs('runToEnd.atMost', options.atMost ?? '365d')
  const look = async () => {
    const [job] = await getJobs(connection.lane, [jobId])
    if (job === undefined) throw new JobNotFoundError(jobId)
    return job
  }
  let job: JobSnapshot | undefined
  await stepOver({
    connection,
    clock,
    handlers,
    atMostMs,
    work: () =>
      kill === undefined || kill.isDead ? drain(connection, handlers) : drainUntilKilled(connection, handlers, kill),
    isOver: async () => {
      job = await look()
      return job.status !== 'pending' && job.status !== 'processing'
    },
  })
  return job!
}

/** How many jobs had an outcome. */
async function drain(connection: Connection, handlers: readonly Handler[]): Promise<number> {
  const worker = new Worker(connection, handlers, {}, 'empty')
  await worker.run()
  return outcomes(worker)
}

async function drainUntilKilled(healthy: Connection, handlers: readonly Handler[], kill: Kill): Promise<number> {
  const { schema, prepare, client } = healthy
  const name = `killed ${randomUUID()}`
  const pool = kill.pool({ ...client, application_name: name })
  const connection = new Connection({ pool, schema, prepare, listen: false, log: () => {} })
  const worker = new Worker(connection, handlers, {}, 'empty')
  const running = worker.run()
  running.catch(() => {}) // Below, unless it died.
  try {
    await Promise.race([running, kill.died])
    if (kill.isDead) await worker.abandon()
    else await running
  } catch (error) {
    if (!kill.isDead) throw error
  } finally {
    // What still wants a connection gets none, so nothing of the dead process goes on trying.
    pool.end().catch(() => {})
    if (kill.isDead) await untilGone(healthy.lane, name)
  }
  return outcomes(worker)
}

/** Postgres finishes the statements of a process that has died, and until then they lock its jobs. */
async function untilGone(lane: Lane, name: string): Promise<void> {
  for (let looks = 0; looks < LOOKS; looks++) {
    const [row] = await lane.run<'left'>(SESSIONS_LEFT, [name])
    if (row!.left === '0') return
    await sleep(LOOK_AGAIN_MS)
  }
}

function outcomes({ tally }: Worker): number {
  const { completed, retrying, deadLetters, snoozed, cancelled, released } = tally
  return completed + retrying + deadLetters + snoozed + cancelled + released
}
