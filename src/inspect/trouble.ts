/** What an operator should know of: `leasehold status` prints it, and fails if there is any. */
import { roughDuration } from '../core/duration.ts'
import type { Lane } from '../db/lane.ts'
import { queuesWithoutSeats } from '../jobs/ring.ts'
import { type QueueStats, RECENT_MS, stats } from './stats.ts'
import {
  COUNT_BLOCKED_KEYS,
  FIND_DEAD_WORKERS,
  FIND_HELD_TRANSACTIONS,
  FIND_UNHANDLED,
  LIST_PAUSES,
  SEES_TRANSACTIONS,
} from './trouble.sql.ts'

const DEAD_WORKERS_FOR_MS = 3_600_000
/** Workers that start have registered by then, and have their seats. */
const UNHANDLED_FOR_MS = 5_000
const COUNT_TO = 1_000

export interface TroubleLimits {
  /** How long a ready job may wait. */
  readonly oldestReadyMs: number
  /** How long a transaction may be open. */
  readonly transactionMs: number
}

export interface Trouble {
  readonly what:
    | 'dead_letters_growing'
    | 'kind_without_handler'
    | 'queue_without_owner'
    | 'old_ready_job'
    | 'dead_worker'
    | 'held_transaction'
    | 'paused'
    | 'blocked_keys'
  readonly sentence: string
  /** The command that shows more, or ends it. */
  readonly next: string
  /** The page that says what to do. */
  readonly runbook: string
}

const RUNBOOKS: Readonly<Record<Trouble['what'], string>> = {
  dead_letters_growing: 'dead-letter-replay',
  kind_without_handler: 'stuck-rows',
  queue_without_owner: 'stuck-rows',
  old_ready_job: 'stuck-rows',
  dead_worker: 'worker-loss',
  held_transaction: 'long-transaction',
  paused: 'stuck-rows',
  blocked_keys: 'hot-key',
}

type Found = Omit<Trouble, 'runbook'>

/** None: all is well. */
export async function findTrouble(lane: Lane, limits: TroubleLimits): Promise<Trouble[]> {
  const queues = await stats(lane)
  const found = [
    ...queues.flatMap((queue) => ofQueue(queue, limits)),
    ...(await unhandledKinds(lane, queues)),
    ...(await unownedQueues(lane, queues)),
    ...(await pauses(lane)),
    ...(await blockedKeys(lane)),
    ...(await deadWorkers(lane)),
    ...(await heldTransactions(lane, limits.transactionMs)),
  ]
  return found.map((one) => ({ ...one, runbook: `docs/runbooks/${RUNBOOKS[one.what]}.md` }))
}

function ofQueue({ queue, diedRecently, oldestReadyMs }: QueueStats, limits: TroubleLimits): Found[] {
  const found: Found[] = []
  if (diedRecently.jobs > 0) {
    const { jobs, atLeast } = diedRecently
    const became = jobs === 1 ? `1 job of queue ${queue} became a dead letter` : undefined
    const sentence = `${became ?? `${jobs}${atLeast ? '+' : ''} jobs of queue ${queue} became dead letters`} in the last ${RECENT_MS / 60_000} minutes`
    found.push({
      what: 'dead_letters_growing',
      sentence,
      next: `leasehold redrive ${shellOption('queue', queue)} --preview`,
    })
  }
  if (oldestReadyMs !== null && oldestReadyMs >= limits.oldestReadyMs) {
    const sentence = `The oldest ready job of queue ${queue} has waited for ${roughDuration(oldestReadyMs)}`
    found.push({
      what: 'old_ready_job',
      sentence,
      next: `leasehold ls ${shellOption('queue', queue)} --status pending`,
    })
  }
  return found
}

async function unhandledKinds(lane: Lane, queues: readonly QueueStats[]): Promise<Found[]> {
  // None of those that were counted is ready, but more may be behind jobs that run or are paused.
  const names = queues.filter(({ ready }) => ready.jobs > 0 || ready.atLeast).map(({ queue }) => queue)
  const values = [names, UNHANDLED_FOR_MS, COUNT_TO]
  const rows = await lane.run<'queue' | 'kind' | 'job_id'>(FIND_UNHANDLED, values)
  return rows.map(({ queue, kind, job_id }) => ({
    what: 'kind_without_handler',
    sentence: `No live worker handles kind ${kind}, of which jobs are ready in queue ${queue}`,
    next: `leasehold why ${job_id}`,
  }))
}

async function unownedQueues(lane: Lane, queues: readonly QueueStats[]): Promise<Found[]> {
  const waiting = new Set(
    queues.filter((one) => Number(one.oldestReadyMs) >= UNHANDLED_FOR_MS).map(({ queue }) => queue),
  )
  const unowned = waiting.size === 0 ? [] : await queuesWithoutSeats(lane)
  return unowned
    .filter(({ queue }) => waiting.has(queue))
    .map(({ queue }) => ({
      what: 'queue_without_owner',
      sentence: `No worker has a seat for queue ${queue}, which is on the ring, and jobs with keys wait in it`,
      next: `leasehold workers ${shellOption('queue', queue)}`,
    }))
}

export interface Pause {
  readonly what: 'queue' | 'kind'
  readonly name: string
  readonly at: Date
  readonly by: string | null
}

export async function listPauses(lane: Lane): Promise<Pause[]> {
  const rows = await lane.run<'what' | 'name' | 'at_ms' | 'by'>(LIST_PAUSES, [])
  return rows.map((row) => ({
    what: row.what as Pause['what'],
    name: row.name!,
    at: new Date(Number(row.at_ms)),
    by: row.by,
  }))
}

async function pauses(lane: Lane): Promise<Found[]> {
  return (await listPauses(lane)).map(({ what, name, at, by }) => ({
    what: 'paused',
    sentence: `The ${what} ${name} is paused since ${at.toISOString()}${by === null ? '' : `, by ${by}`}`,
    next: `leasehold resume ${shellOption(what, name)}`,
  }))
}

async function blockedKeys(lane: Lane): Promise<Found[]> {
  const rows = await lane.run<'queue' | 'letters' | 'first_id'>(COUNT_BLOCKED_KEYS, [COUNT_TO])
  return rows.map(({ queue, letters, first_id }) => ({
    what: 'blocked_keys',
    sentence: `${letters === '1' ? 'A dead letter blocks a key' : `${letters} dead letters block keys`} of queue ${queue}`,
    next: `leasehold show ${first_id}`,
  }))
}

async function deadWorkers(lane: Lane): Promise<Found[]> {
  const rows = await lane.run<'label' | 'seen_ms'>(FIND_DEAD_WORKERS, [DEAD_WORKERS_FOR_MS])
  return rows.map(({ label, seen_ms }) => ({
    what: 'dead_worker',
    sentence: `Worker ${label} died: it was last seen at ${new Date(Number(seen_ms)).toISOString()}`,
    next: 'leasehold workers --state dead',
  }))
}

async function heldTransactions(lane: Lane, forMs: number): Promise<Found[]> {
  type Column = 'pid' | 'usename' | 'application_name' | 'state' | 'for_ms'
  const rows = await lane.run<Column>(FIND_HELD_TRANSACTIONS, [forMs])
  return rows.map((row) => ({
    what: 'held_transaction',
    sentence: `Session ${row.pid} of ${row.usename}${row.application_name === '' ? '' : ` (${row.application_name})`} has had a transaction open for ${roughDuration(Number(row.for_ms))}`,
    next: `select pg_terminate_backend(${row.pid})`,
  }))
}

/** Without the rights to see those of others, a transaction that is held is no trouble here. */
export async function sightOfTransactions(lane: Lane): Promise<{ readonly role: string; readonly seesAll: boolean }> {
  const [row] = await lane.run<'role' | 'sees_all'>(SEES_TRANSACTIONS, [])
  return { role: row!.role!, seesAll: row!.sees_all === 't' }
}

/** An option and its value. One that begins with a hyphen would be taken for another option. */
export function shellOption(name: string, value: string): string {
  return `--${name}${value.startsWith('-') ? '=' : ' '}${shellWord(value)}`
}

/** Quoted for a shell, if it has to be. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
