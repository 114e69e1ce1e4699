/** What the database knows of queues and kinds, and how long rows are kept. Stored by a deploy, read by workers. */
import { durationText } from '../core/duration.ts'
import { InvalidOptionError, LockTimeoutError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import type { Queue } from '../core/queue.ts'
import { RETAINED, type RetentionMs } from '../core/retention.ts'
import type { Lane } from '../db/lane.ts'
import { numericArray } from '../db/parameters.ts'
import { FIND_STRANDED, READ_KINDS, READ_SETTINGS, SET_ORDERED, STORE_CONFIGURATION } from './configuration.sql.ts'

export type Declaration = Kind | Queue

/**
 * Stores these kinds and queues, the queues that the kinds name, and the retention that was given. What was stored before
 * and is not named stays. Safe to repeat, also after a lost reply.
 */
export async function storeConfiguration(
  lane: Lane,
  declarations: readonly Declaration[],
  retention: Partial<RetentionMs>,
): Promise<void> {
  if (!Array.isArray(declarations)) {
    throw new InvalidOptionError('configure', 'it must be a list of kinds and queues: [kind(…), queue(…)]')
  }
  const kinds = new Map<string, StoredKind>()
  const declared = new Map<string, Queue>()
  for (const [index, declaration] of declarations.entries()) {
    if (isQueue(declaration)) addOnce(declared, 'queue', queueToStore(declaration))
    else if (isKind(declaration)) addOnce(kinds, 'kind', kindToStore(declaration))
    else {
      throw new InvalidOptionError(`configure[${index}]`, "declare it with kind('name', { … }) or queue('name', { … })")
    }
  }
  const queues = new Map(declared)
  for (const { queue: name } of kinds.values()) {
    if (!queues.has(name))
      queues.set(name, { name, ordered: false, fair: false, onDeadLetter: 'block', wakeUp: true, ring: null })
  }
  await setOrdered(lane, [...declared.values()])
  const [queueRows, kindRows] = [[...queues.values()], [...kinds.values()]]
  await lane.run(STORE_CONFIGURATION, [
    queueRows.map(({ name }) => name),
    queueRows.map(({ ordered }) => ordered),
    queueRows.map(({ onDeadLetter }) => onDeadLetter),
    [...declared.keys()],
    kindRows.map(({ name }) => name),
    kindRows.map(({ queue }) => queue),
    numericArray(kindRows.map(({ priority }) => priority)),
    numericArray(kindRows.map(({ maxAttempts }) => maxAttempts)),
    numericArray(kindRows.map(({ keepMs }) => keepMs)),
    numericArray(kindRows.map(({ keepKeyMs }) => keepKeyMs)),
    ...RETAINED.map((name) => retention[name] ?? null),
    queueRows.map(({ wakeUp }) => wakeUp),
    queueRows.map(({ fair }) => fair),
    queueRows.map(({ ring }) => ring),
  ])
}

/** Refused for a queue that has unfinished jobs, if it changes anything. */
async function setOrdered(lane: Lane, declared: readonly Queue[]): Promise<void> {
  if (declared.length === 0) return
  const values = [declared.map(({ name }) => name), declared.map(({ ordered }) => ordered)]
  await lane.run(SET_ORDERED, values).catch((error) => {
    const { code, message } = error as { code?: string; message?: string }
    const name = /^queue "(.*)" has/.exec(message ?? '')?.[1]
    if (code === 'LH004') {
      throw new InvalidOptionError(
        `queue(${JSON.stringify(name)}).ordered`,
        'it cannot change while jobs of the queue are unfinished; let workers finish them, or use a queue with another name',
      )
    }
    if (code === '55P03') throw new LockTimeoutError('leasehold.job', 2_000)
    throw error
  })
}

/** How long rows are kept, as stored. */
export async function readRetention(lane: Lane): Promise<RetentionMs> {
  const [row] = await lane.run<'dead_letters_ms' | 'attempts_ms' | 'effects_ms' | 'workers_ms' | 'events_ms'>(
    READ_SETTINGS,
    [],
  )
  return {
    deadLetters: Number(row!.dead_letters_ms),
    attempts: Number(row!.attempts_ms),
    effects: Number(row!.effects_ms),
    workers: Number(row!.workers_ms),
    events: Number(row!.events_ms),
  }
}

/**
 * Where this process declares something else than what is stored, a line each for the log. A kind that was never configured
 * has nothing to differ from. Retention always has: the stored values apply, and not those that a process asks for.
 */
export async function configurationDifferences(
  lane: Lane,
  kinds: readonly Kind[],
  retention: Partial<RetentionMs>,
): Promise<string[]> {
  const declared = new Map(kinds.map((kind) => [kind.name, kindToStore(kind)]))
  const stored = await lane.run<KindColumn>(READ_KINDS, [[...declared.keys()]])
  const ofKinds = stored.flatMap((row) => {
    const { name, queue, priority, maxAttempts, keepMs, keepKeyMs } = declared.get(row.name!)!
    const about = `kind ${name} is configured with`
    return [
      ...difference(`${about} queue`, row.queue, queue),
      ...difference(`${about} priority`, row.priority, priority),
      ...difference(`${about} maxAttempts`, row.max_attempts, maxAttempts),
      ...difference(`${about} keep`, row.keep_ms, keepMs, (ms) => (ms === 0 ? 'false' : durationText(ms))),
      ...difference(`${about} keepKey`, row.keep_key_ms, keepKeyMs, durationText),
    ]
  })
  if (Object.keys(retention).length === 0) return ofKinds
  const applied = await readRetention(lane)
  const ofRetention = RETAINED.flatMap((name) =>
    difference(`retention.${name} is configured as`, applied[name], retention[name] ?? applied[name], durationText),
  )
  return [...ofKinds, ...ofRetention]
}

/** How far the look for stranded jobs goes: it is a hint, and a start must not wait for it. */
const QUEUES_LOOKED_AT = 1_000
const JOBS_LOOKED_AT = 100

/** A line for the log per kind and queue in which jobs of the kind wait although it is declared with another queue. */
export async function strandedJobs(lane: Lane, kinds: readonly Kind[]): Promise<string[]> {
  const queueOf = new Map(kinds.map(({ name, queue }) => [name, queue]))
  const values = [[...queueOf.keys()], [...queueOf.values()], QUEUES_LOOKED_AT, JOBS_LOOKED_AT]
  const rows = await lane.run<'queue' | 'kind' | 'jobs'>(FIND_STRANDED, values)
  return rows.map(
    ({ queue, kind, jobs }) =>
      `${jobs}${Number(jobs) === JOBS_LOOKED_AT ? ' or more' : ''} pending jobs of kind ${kind} are in queue ${queue}, but the ` +
      `kind is declared with queue ${queueOf.get(kind!)}; run a worker whose kind has queue ${queue} until they are done`,
  )
}

/** The kinds among what is declared. */
export function kindsOf(declarations: readonly Declaration[]): Kind[] {
  return declarations.filter(isKind)
}

type KindColumn = 'name' | 'queue' | 'priority' | 'max_attempts' | 'keep_ms' | 'keep_key_ms'

/** A line to log, or none. Null in the database: never configured. */
function difference(
  about: string,
  stored: string | number | null,
  declared: string | number,
  text: (ms: number) => string = String,
): string[] {
  if (stored === null) return []
  if (typeof declared === 'string') {
    return stored === declared ? [] : [`${about} ${stored}, this process declares ${declared}; run configure()`]
  }
  if (micros(Number(stored)) === micros(declared)) return []
  return [`${about} ${text(Number(stored))}, this process declares ${text(declared)}; run configure()`]
}

/** An interval holds microseconds, a duration in milliseconds may hold fractions of them. */
function micros(ms: number): number {
  return Math.round(ms * 1_000)
}

type StoredKind = Pick<Kind, 'name' | 'queue' | 'priority' | 'maxAttempts' | 'keepKeyMs'> & { readonly keepMs: number }

/** The columns of a kind that the database knows. `keep: false` is stored as zero. */
function kindToStore({ name, queue, priority, maxAttempts, keepMs, keepKeyMs }: Kind): StoredKind {
  return { name, queue, priority, maxAttempts, keepMs: keepMs || 0, keepKeyMs }
}

function queueToStore({ name, ordered, fair, onDeadLetter, wakeUp, ring }: Queue): Queue {
  return { name, ordered, fair, onDeadLetter, wakeUp, ring }
}

function isQueue(declaration: unknown): declaration is Queue {
  return isDeclared(declaration) && 'onDeadLetter' in declaration
}

function isKind(declaration: unknown): declaration is Kind {
  return isDeclared(declaration) && 'maxAttempts' in declaration
}

function isDeclared(declaration: unknown): declaration is { readonly name: string } {
  return typeof (declaration as { name?: unknown } | null)?.name === 'string'
}

/** The same declaration twice is one; two that differ are a mistake that the last deploy would win. */
function addOnce<Item extends { readonly name: string }>(to: Map<string, Item>, what: string, item: Item): void {
  const before = to.get(item.name)
  if (before !== undefined && JSON.stringify(before) !== JSON.stringify(item)) {
    throw new InvalidOptionError('configure', `${what} ${item.name} is declared twice, with different options`)
  }
  to.set(item.name, item)
}
