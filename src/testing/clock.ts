/** A clock that tests move: the one of the database, which decides when a job is available, a sleep ends and a lease expires. */
import { checkDate } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { withTransaction } from '../db/transaction.ts'
import type { JobSnapshot } from '../inspect/jobs.ts'
import type { JobId } from '../jobs/job.ts'
import type { Handler } from '../worker/handler.ts'
import {
  KEEP_SWEEPING,
  LOCK_CLOCK,
  LOOK_AT_CLOCK,
  MAKE_CLOCK_TABLE,
  MOVE_CLOCK,
  MOVE_CLOCK_TO,
  READ_CLOCK,
  REPLACE_CLOCK,
  SHOW_CLOCK,
  START_CLOCK,
  WAKE_WORKERS,
} from './clock.sql.ts'
import { type Drained, type DrainOptions, drain } from './drain.ts'
import { type RunToEndOptions, runToEnd } from './run-to-end.ts'

export interface TestClockOptions {
  /** Also in a database that had jobs before: time moves for them, too, and the change stays. Default: false. */
  readonly evenWithJobs?: boolean
}

/** The clock of a test database. Time also passes by itself. */
export class TestClock {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** The time of the database. */
  async now(): Promise<Date> {
    const [row] = await this.#connection.lane.run<'now_ms'>(READ_CLOCK, [])
    return new Date(Number(row!.now_ms))
  }

  /** Moves the time of the database forward, for every session. Workers that listen look at once for what has become due. */
  async advance(duration: Duration): Promise<void> {
    await this.#move(MOVE_CLOCK, durationMs('advance', duration))
  }

  /** The same, to this moment. Throws InvalidOptionError if it has passed: time never goes back. */
  async advanceTo(moment: Date): Promise<void> {
    const at = checkDate('advanceTo', moment)
    if (await this.#move(MOVE_CLOCK_TO, at)) return
    const now = (await this.now()).toISOString()
    throw new InvalidOptionError('advanceTo', `${at} has passed, and time never goes back; it is ${now}`)
  }

  /**
   * Runs jobs with these handlers, one at a time unless there is a batch handler, and moves the clock over delays, retries and sleeps,
   * until none is left. Returns what ran.
   */
  drain(handlers: readonly Handler[], options: DrainOptions = {}): Promise<Drained> {
    return drain(this.#connection, this, handlers, options)
  }

  /**
   * Runs jobs with these handlers, and moves the clock over sleeps, retries, timeouts and the leases of dead workers, until the job
   * or run has ended. Returns it as it stands. It has not ended if it waits for a signal only, or if nothing here can
   * advance it: a kind without a handler, a pause.
   */
  runToEnd<Result>(
    handlers: readonly Handler[],
    job: { readonly jobId: JobId<Result> },
    options: RunToEndOptions = {},
  ): Promise<JobSnapshot<Result>> {
    return runToEnd(this.#connection, this, handlers, job.jobId, options) as Promise<JobSnapshot<Result>>
  }

  /** False: that would be backwards. */
  #move(statement: string, by: number | string): Promise<boolean> {
    const { pool, lane } = this.#connection
    return withTransaction(pool, async (tx) => {
      const within = lane.within(tx)
      const moved = await within.run(statement, [by])
      await within.run(KEEP_SWEEPING, [])
      await within.run(WAKE_WORKERS, [])
      return moved.length > 0
    })
  }
}

/**
 * Replaces the clock of a test database by one that can be moved. The replacement stays in the database. Refuses one that has jobs
 * and no such clock, since it may not be a test database: call this before the first job.
 */
export async function testClock(leasehold: object, options: TestClockOptions = {}): Promise<TestClock> {
  const connection = connectionOf('testClock', leasehold)
  checkOptions('testClock', options, ['evenWithJobs'])
  const { pool, lane } = connection
  await withTransaction(pool, (tx) => install(lane.within(tx), options.evenWithJobs ?? false))
  return new TestClock(connection)
}

async function install(lane: Lane, evenWithJobs: boolean): Promise<void> {
  await lane.run(LOCK_CLOCK, [])
  const [row] = await lane.run<'there' | 'has_jobs'>(LOOK_AT_CLOCK, [])
  if (row!.there === 't') return
  if (row!.has_jobs === 't' && !evenWithJobs) {
    throw new InvalidOptionError(
      'testClock',
      'this database has jobs, so it may not be a test database, and time would move for all of them. Use a database of its ' +
        'own, and call testClock() before the first job; or pass { evenWithJobs: true }',
    )
  }
  for (const statement of [MAKE_CLOCK_TABLE, START_CLOCK, SHOW_CLOCK, REPLACE_CLOCK]) await lane.run(statement, [])
}
