import { anyBucket, bucketOf } from '../core/bucket.ts'
import { checkDate, checkInteger, checkMilliseconds, checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { encodeInput } from '../core/storable.ts'
import { settlingConflicts } from '../db/conflict.ts'
import type { Lane, Row } from '../db/lane.ts'
import { numericArray } from '../db/parameters.ts'
import {
  ENQUEUE,
  ENQUEUE_ALIKE,
  ENQUEUE_ALIKE_IN_ORDER,
  ENQUEUE_IN_ORDER,
  ENQUEUE_KEYED,
  FIND_KEYED,
} from './enqueue.sql.ts'
import type { JobId } from './job.ts'

export const MAX_BATCH = 10_000
/** It is read whole, and a server's memory is not ours. Larger ones are read one by one. */
const MAX_CHARS_IN_ONE_JSON = 2 ** 22
const KEEP_KEY_MS = 24 * 3_600_000

export interface NewJob {
  readonly kind: string
  /** What a worker subscribes to. Default: the kind. */
  readonly queue?: string | undefined
  /** Stored as JSON, exactly, or refused. */
  readonly input: unknown
  /** 0 first, 9 last. Default: 5. */
  readonly priority?: number | undefined
  /** Not before this long from now, by the database's clock. Default: 0. */
  readonly delayMs?: number | undefined
  /** Not before this moment. Wins over delayMs. */
  readonly availableAt?: Date | undefined
  /** Default: 5. */
  readonly maxAttempts?: number | undefined
  readonly partitionKey?: string | undefined
  /** The queue must be ordered. */
  readonly ordered?: boolean | undefined
  /** One job per queue and key. */
  readonly idempotencyKey?: string | undefined
  /** The key is kept at least this long after the job has finished. Default: 24 h. */
  readonly keepKeyMs?: number | undefined
  /** Not started by then: a dead letter. */
  readonly expiresAt?: Date | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** existing: a job with the same key and the same input is there already. */
export interface Enqueued<Result = unknown> {
  readonly jobId: JobId<Result>
  readonly outcome: 'created' | 'existing'
}

/** The key belongs to a job with another input. That job is unchanged, and this one was not enqueued. */
export interface Conflicting {
  readonly jobId: JobId
  readonly outcome: 'conflict'
}

/** A job that was checked, as it is sent. */
export interface Encoded {
  readonly queue: string
  readonly kind: string
  readonly payload: string
  readonly priority: number
  readonly maxAttempts: number
  readonly bucket: number
  readonly delayMs: number
  /** Columns that few jobs use, but for the partition key. */
  readonly more: Readonly<Record<string, unknown>> | null
  readonly partitionKey: string | undefined
  readonly key: string | null
  readonly keepKeyMs: number
  readonly ordered: boolean
}

/**
 * Stores jobs by one statement, all or none, and answers in the order given. Keys that were taken are looked up by a second
 * one: after an error call it again, and what was stored under a key answers `existing`. Everything is checked before
 * anything is sent. Two transactions that enqueue the same keys in several calls each, in opposite orders, can deadlock.
 */
export async function enqueue(lane: Lane, jobs: readonly NewJob[]): Promise<(Enqueued | Conflicting)[]> {
  checkCount(jobs)
  return store(lane, prepare(jobs))
}

export function checkCount({ length }: readonly NewJob[]): void {
  if (length > MAX_BATCH) throw new InvalidOptionError('jobs', `a call takes at most ${MAX_BATCH}`)
}

/** Jobs of one statement. */
export interface Prepared {
  readonly jobs: readonly Encoded[]
  /** The parameters of the statement for jobs that differ in nothing but their input, if they do. */
  readonly alike: unknown[] | undefined
}

export function prepare(jobs: readonly NewJob[]): Prepared {
  const encoded: Encoded[] = []
  for (const job of jobs) encoded.push(encode(job, encoded.at(-1)))
  const isPlain = encoded.length > 0 && encoded.every(({ key, ordered }) => key === null && !ordered)
  return { jobs: encoded, alike: isPlain && areAlike(encoded, false) ? commonColumns(encoded) : undefined }
}

async function store(lane: Lane, prepared: Prepared): Promise<(Enqueued | Conflicting)[]> {
  const { jobs } = prepared
  if (jobs.length === 0) return []
  if (jobs.some(({ key }) => key !== null)) return enqueueKeyed(lane, jobs)
  return (await storeWithoutKeys(lane, prepared)).map(created)
}

/** Returns the ids. */
export function storeWithoutKeys(lane: Lane, prepared: Prepared): Promise<string[]> {
  const { jobs } = prepared
  return jobs.some(({ ordered }) => ordered) ? inOrder(lane, jobs) : enqueuePlain(lane, prepared)
}

export function created(id: string): Enqueued {
  return { jobId: id as JobId, outcome: 'created' }
}

async function enqueuePlain(lane: Lane, { jobs, alike }: Prepared): Promise<string[]> {
  if (jobs.some(({ queue }) => looksAtKeys(lane, queue))) return inOrder(lane, jobs)
  const ids = alike === undefined ? await enqueueAny(lane, jobs) : await enqueueAlike(lane, alike)
  if (ids !== undefined) return ids
  noteKeys(lane, jobs)
  return inOrder(lane, jobs)
}

/**
 * Queues that are ordered, fair or on the ring, as the database said: the next enqueue begins with the statement that looks at keys.
 * That one is right for any queue, so it costs a round trip, and no more, if the queue has been configured otherwise since.
 */
const queuesWithKeys = new WeakMap<Lane, Set<string>>()

function looksAtKeys(lane: Lane, queue: string): boolean {
  return queuesWithKeys.get(lane.outermost)?.has(queue) === true
}

/** One of them, at least. Which of several queues it is, is not known. */
function noteKeys(lane: Lane, jobs: readonly Encoded[]): void {
  const [{ queue }] = jobs as [Encoded, ...Encoded[]]
  if (jobs.some((job) => job.queue !== queue)) return
  const known = queuesWithKeys.get(lane.outermost) ?? new Set()
  queuesWithKeys.set(lane.outermost, known.add(queue))
}

/** Undefined: the queue is ordered. */
async function enqueueAlike(lane: Lane, columns: readonly unknown[]): Promise<string[] | undefined> {
  const [row] = await lane.run<'ids'>(ENQUEUE_ALIKE, columns)
  return row!.ids?.slice(1, -1).split(',')
}

/** Undefined: a queue is ordered. */
async function enqueueAny(lane: Lane, jobs: readonly Encoded[]): Promise<string[] | undefined> {
  const rows = await lane.run<'id'>(ENQUEUE, columns(jobs))
  return rows.length === 0 ? undefined : rows.map(({ id }) => id!)
}

async function inOrder(lane: Lane, jobs: readonly Encoded[]): Promise<string[]> {
  if (areAlike(jobs, true)) {
    const keys = JSON.stringify(jobs.map((job) => job.partitionKey))
    const values = [...commonColumns(jobs), keys, jobs.some((job) => job.ordered)]
    const send = () => lane.run<'ids'>(ENQUEUE_ALIKE_IN_ORDER, values)
    const [row] = await settlingConflicts(lane.standsAlone, send)
    if (row!.ids !== null) return row!.ids.slice(1, -1).split(',')
    // Without ids the queue is not what it is taken for, which the next statement explains.
  }
  return (await enqueueInOrder(lane, jobs, [null, null])).map(({ id }) => id!)
}

/** Those whose idempotency key is taken are missing from the answer. */
async function enqueueInOrder(
  lane: Lane,
  jobs: readonly Encoded[],
  keys: readonly unknown[],
): Promise<readonly Row<'position' | 'id'>[]> {
  const declared = [...new Set(jobs.filter((job) => job.ordered).map((job) => job.queue))]
  const values = [...columns(jobs), ...keys, declared.length > 0 ? declared : null]
  const send = () => lane.run<'position' | 'id'>(ENQUEUE_IN_ORDER, values)
  return settlingConflicts(lane.standsAlone, send).catch(refuseOrder)
}

/** What the database refuses about order, in the words of the options. */
function refuseOrder(error: unknown): never {
  const { code, message = '' } = error as { code?: string; message?: string }
  const name = /queue "(.*)" is/.exec(message)?.[1]
  if (code === 'LH002') {
    throw new InvalidOptionError('partitionKey', `queue ${name} is ordered; pass the key whose jobs must run in order`)
  }
  if (code === 'LH003') {
    const declaration = `queue(${JSON.stringify(name)}, { ordered: true })`
    throw new InvalidOptionError(
      'ordered',
      `queue ${name} is not ordered in this database; configure([${declaration}])`,
    )
  }
  throw error
}

async function enqueueKeyed(lane: Lane, jobs: readonly Encoded[]): Promise<(Enqueued | Conflicting)[]> {
  const answers: (Enqueued | Conflicting)[] = new Array(jobs.length)
  let open = [...jobs.keys()]
  // A key that was neither free nor found was pruned in between: look again. Pruning twice in a row is not possible
  // within the time a key is kept, so a few rounds are plenty.
  for (let round = 0; open.length > 0; round++) {
    if (round === 5) throw new Error('idempotency keys keep disappearing while they are looked up')
    const asked = open.map((index) => jobs[index]!)
    for (const { position, id } of await storeKeyed(lane, asked)) {
      if (id !== null) answers[open[Number(position) - 1]!] = { jobId: id as JobId, outcome: 'created' }
    }
    const taken = open.filter((index) => answers[index] === undefined)
    if (taken.length === 0) break
    const found = await lane.run<'position' | 'job_id' | 'same_input'>(FIND_KEYED, [
      taken.map((index) => jobs[index]!.queue),
      taken.map((index) => jobs[index]!.key),
      taken.map((index) => jobs[index]!.payload),
    ])
    for (const { position, job_id, same_input } of found) {
      const outcome = same_input === 't' ? 'existing' : 'conflict'
      answers[taken[Number(position) - 1]!] = { jobId: job_id as JobId, outcome }
    }
    open = taken.filter((index) => answers[index] === undefined)
  }
  return answers
}

async function storeKeyed(lane: Lane, jobs: readonly Encoded[]): Promise<readonly Row<'position' | 'id'>[]> {
  const keys = [jobs.map((job) => job.key), numericArray(jobs.map((job) => job.keepKeyMs))]
  if (jobs.some((job) => job.ordered || looksAtKeys(lane, job.queue))) return enqueueInOrder(lane, jobs, keys)
  const stored = await lane.run<'position' | 'id'>(ENQUEUE_KEYED, [...columns(jobs), ...keys])
  if (stored.length > 0) return stored
  noteKeys(lane, jobs)
  return enqueueInOrder(lane, jobs, keys)
}

/** `previous`: names that were checked already. */
function encode(job: NewJob, previous: Encoded | undefined): Encoded {
  const kind = job.kind === previous?.kind ? job.kind : checkText('kind', job.kind, 200)
  const queue = job.queue === undefined ? kind : job.queue
  const { partitionKey } = job
  if (partitionKey !== undefined) checkText('partitionKey', partitionKey, 1000)
  return {
    queue: queue === kind || queue === previous?.queue ? queue : checkText('queue', queue, 200),
    kind,
    payload: encodeInput(job.input),
    priority: checkInteger('priority', job.priority ?? 5, 0, 9),
    maxAttempts: checkInteger('maxAttempts', job.maxAttempts ?? 5, 1, 32_767),
    bucket: job.partitionKey === undefined ? anyBucket() : bucketOf(job.partitionKey),
    delayMs: checkMilliseconds('delayMs', job.delayMs ?? 0),
    more: moreOf(job),
    partitionKey,
    key: job.idempotencyKey === undefined ? null : checkText('idempotencyKey', job.idempotencyKey, 1000),
    keepKeyMs: checkMilliseconds('keepKeyMs', job.keepKeyMs ?? KEEP_KEY_MS),
    ordered: job.ordered === true,
  }
}

/** What few jobs have. */
function moreOf({ availableAt, expiresAt, metadata }: NewJob): Readonly<Record<string, unknown>> | null {
  if (availableAt === undefined && expiresAt === undefined && metadata === undefined) return null
  const more: Record<string, unknown> = {}
  if (availableAt !== undefined) more.available_at = checkDate('availableAt', availableAt)
  if (expiresAt !== undefined) more.expires_at = checkDate('expiresAt', expiresAt)
  if (metadata !== undefined) more.metadata = JSON.parse(encodeInput(metadata, { bytes: 65_536 }))
  return more
}

function rareColumns({ more, partitionKey }: Encoded): string | null {
  if (more === null && partitionKey === undefined) return null
  return JSON.stringify({ ...more, partition_key: partitionKey })
}

/** They differ in nothing but their input, their key and their bucket. */
function areAlike(jobs: readonly Encoded[], withKeys: boolean): boolean {
  const first = jobs[0]!
  let chars = 0
  for (const job of jobs) {
    chars += job.payload.length
    if (withKeys !== (job.partitionKey !== undefined)) return false
    if (job.more !== null || job.queue !== first.queue || job.kind !== first.kind) return false
    if (job.priority !== first.priority || job.maxAttempts !== first.maxAttempts) return false
    if (job.delayMs !== first.delayMs || chars > MAX_CHARS_IN_ONE_JSON) return false
  }
  return true
}

function commonColumns(jobs: readonly Encoded[]): unknown[] {
  const { queue, kind, priority, maxAttempts, delayMs } = jobs[0]!
  const inputs = `[${jobs.map((job) => job.payload).join(',')}]`
  return [queue, kind, inputs, priority, maxAttempts, numericArray(jobs.map((job) => job.bucket)), delayMs]
}

function columns(jobs: readonly Encoded[]): unknown[] {
  return [
    jobs.map((job) => job.queue),
    jobs.map((job) => job.kind),
    jobs.map((job) => job.payload),
    numericArray(jobs.map((job) => job.priority)),
    numericArray(jobs.map((job) => job.maxAttempts)),
    numericArray(jobs.map((job) => job.bucket)),
    numericArray(jobs.map((job) => job.delayMs)),
    jobs.map(rareColumns),
  ]
}
