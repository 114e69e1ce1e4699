import type { Lane } from '../db/lane.ts'
import { COUNT_WRITTEN, DESCRIBE_DATABASE, KNOWN_NAMES } from './database.sql.ts'

/** The database that a command is about to change, such as `shop on 10.0.0.7:5432`. */
export async function describeDatabase(lane: Lane): Promise<string> {
  const [row] = await lane.run<'database' | 'host' | 'port'>(DESCRIBE_DATABASE, [])
  const { database, host, port } = row!
  return `${database} on ${host}${port === null ? '' : `:${port}`}`
}

/** By the server's counters, which only grow until they are reset. */
export interface Written {
  /** Jobs that have ended, but for dead letters. */
  readonly finished: number
  /** Attempts that did not complete their job. */
  readonly otherAttempts: number
}

export async function countWritten(lane: Lane): Promise<Written> {
  const [row] = await lane.run<'finished' | 'other_attempts'>(COUNT_WRITTEN, [])
  return { finished: Number(row!.finished), otherAttempts: Number(row!.other_attempts) }
}

export interface KnownKind {
  readonly queue: string | null
  readonly priority: number | null
  readonly maxAttempts: number | null
  readonly keepKeyMs: number | null
}

/** Kinds and queues that were configured, or that a running worker has; and kinds of workers that have ended. */
export async function knownNames(
  lane: Lane,
): Promise<{ kinds: ReadonlyMap<string, KnownKind>; ended: ReadonlySet<string>; queues: ReadonlySet<string> }> {
  const rows = await lane.run<'what' | 'name' | 'queue' | 'priority' | 'max_attempts' | 'keep_key_ms'>(KNOWN_NAMES, [])
  const number = (text: string | null) => (text === null ? null : Number(text))
  const kinds = new Map<string, KnownKind>()
  const ended = new Set<string>()
  const queues = new Set<string>()
  for (const row of rows) {
    const name = row.name!
    if (row.what === 'queue') queues.add(name)
    else if (row.what === 'ended') ended.add(name)
    else if ((kinds.get(name)?.queue ?? null) === null) {
      kinds.set(name, {
        queue: row.queue,
        priority: number(row.priority),
        maxAttempts: number(row.max_attempts),
        keepKeyMs: number(row.keep_key_ms),
      })
    }
  }
  return { kinds, ended, queues }
}
