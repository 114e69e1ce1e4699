/** Liveness and readiness of this process, as data. */
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { SchemaError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Connection } from '../db/connection.ts'
import { checkSchema } from '../db/migrate.ts'
import { PooledStatements } from '../db/pooled.ts'
import type { WorkerHealth } from '../worker/health.ts'
import { runningWorkers } from './running-workers.ts'

export interface HealthOptions {
  /** The database has this long to answer. Default: 2s. */
  readonly deadline?: Duration
  /** Ready only while at least so many workers of this Leasehold run. Default: 0. */
  readonly workers?: number
}

export interface Health {
  /** False: only a restart helps. A database that is away or refuses to write is no reason. */
  readonly live: boolean
  /** Producers of this process can enqueue, and its workers work. */
  readonly ready: boolean
  readonly database: 'reachable' | 'unreachable'
  /** unknown: the database did not answer. */
  readonly schema: 'fits' | 'does_not_fit' | 'unknown'
  readonly workers: readonly WorkerHealth[]
  /** Why it is not ready, in words. Without names of hosts or users. */
  readonly problems: readonly string[]
}

export async function checkHealth(connection: Connection, options: HealthOptions = {}): Promise<Health> {
  checkOptions('health', options, ['deadline', 'workers'])
  const deadlineMs = durationMs('health.deadline', options.deadline ?? '2s')
  const wanted = checkInteger('health.workers', options.workers ?? 0, 0, 1_000)
  const { database, schema, problem } = await lookAtDatabase(connection, deadlineMs)
  const workers = runningWorkers(connection).map((worker) => worker.health)
  const problems = problem === undefined ? [] : [problem]
  if (workers.length < wanted) problems.push(`${workers.length} of ${wanted} workers run`)
  for (const worker of workers) if (worker.state !== 'running') problems.push(problemOf(worker))
  // A worker cannot beat while the database is away or refuses to write, and a restart would not help.
  const live =
    database === 'unreachable' || workers.every(({ state, refused }) => state !== 'stuck' || refused !== undefined)
  return { live, ready: problems.length === 0, database, schema, workers, problems }
}

function problemOf({ label, state, refused }: WorkerHealth): string {
  const why = refused === undefined ? '' : `: the database refuses its beats (${refused})`
  return `worker ${label} is ${state}${why}`
}

async function lookAtDatabase(
  { pool, schema }: Connection,
  deadlineMs: number,
): Promise<Pick<Health, 'database' | 'schema'> & { problem?: string }> {
  try {
    await checkSchema(new PooledStatements(pool, deadlineMs), { schema })
    return { database: 'reachable', schema: 'fits' }
  } catch (error) {
    if (error instanceof SchemaError) {
      return { database: 'reachable', schema: 'does_not_fit', problem: error.message }
    }
    const problem = `the database did not answer: ${reason(error)}`
    return { database: 'unreachable', schema: 'unknown', problem }
  }
}

/** A code alone: the message of a driver may name hosts and users, and a health page is often public. */
function reason(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return String(code ?? name ?? 'unknown error')
}
