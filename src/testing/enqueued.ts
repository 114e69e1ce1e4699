/** Assertions about the jobs in a database. They throw node:assert's AssertionError, which every test runner shows well. */
import { AssertionError } from 'node:assert'
import { inspect } from 'node:util'
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { connectionOf } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import type { Tx } from '../db/tx.ts'
import { type JobSnapshot, listJobs } from '../inspect/jobs.ts'
import type { Status } from '../jobs/job.ts'
import { COUNT_KINDS } from './enqueued.sql.ts'

/** A job that was found. */
export type EnqueuedJob<Input = unknown, Result = unknown> = JobSnapshot<Result> & { readonly input: Input }

/** Some of the input, at any depth; or a function that looks at the input and the job. */
export type Expected<Input> = Part<Input> | ((input: Input, job: EnqueuedJob<Input>) => boolean)

type Part<Value> = Value extends object ? { readonly [Key in keyof Value]?: Part<Value[Key]> } : Value

export interface EnqueuedOptions {
  /** Your open transaction: jobs that it has enqueued are there for it alone. Default: what is committed. */
  readonly tx?: Tx
  /** Default: any. A kind with `keep: false` leaves no completed jobs. */
  readonly status?: Status
}

export interface AssertEnqueuedOptions extends EnqueuedOptions {
  /** Exactly so many. Default: at least one. */
  readonly count?: number
}

const PAGE = 1_000
/** In the message of an error. */
const SHOWN = 10

/** The jobs of this kind whose input matches, oldest first. */
export async function enqueued<Input, Result>(
  leasehold: object,
  kind: Kind<Input, unknown, Result> | string,
  expected?: Expected<NoInfer<Input>>,
  options: EnqueuedOptions = {},
): Promise<EnqueuedJob<Input, Result>[]> {
  checkOptions('enqueued', options, ['tx', 'status'])
  const { matching } = await look(laneOf('enqueued', leasehold, options), kind, expected, options)
  return matching as EnqueuedJob<Input, Result>[]
}

/** Throws unless a job of this kind with such an input is there, or `count` of them. Returns the oldest. */
export async function assertEnqueued<Input, Result>(
  leasehold: object,
  kind: Kind<Input, unknown, Result> | string,
  expected?: Expected<NoInfer<Input>>,
  options: AssertEnqueuedOptions = {},
): Promise<EnqueuedJob<Input, Result>> {
  checkOptions('assertEnqueued', options, ['tx', 'status', 'count'])
  const count =
    options.count === undefined ? undefined : checkInteger('assertEnqueued.count', options.count, 1, 1_000_000)
  const lane = laneOf('assertEnqueued', leasehold, options)
  const found = await look(lane, kind, expected, options)
  const { length } = found.matching
  if (count === undefined ? length > 0 : length === count) return found.matching[0] as EnqueuedJob<Input, Result>
  const wanted = count === undefined ? 'A job' : `${count} ${count === 1 ? 'job' : 'jobs'}`
  return fails(lane, `${wanted} of ${described(found, expected, options)}: found ${length}.`, found, expected)
}

/** Throws if a job of this kind with such an input is there. */
export async function refuteEnqueued<Input, Result>(
  leasehold: object,
  kind: Kind<Input, unknown, Result> | string,
  expected?: Expected<NoInfer<Input>>,
  options: EnqueuedOptions = {},
): Promise<void> {
  checkOptions('refuteEnqueued', options, ['tx', 'status'])
  const lane = laneOf('refuteEnqueued', leasehold, options)
  const found = await look(lane, kind, expected, options)
  if (found.matching.length === 0) return
  const message = `No job of ${described(found, expected, options)}: found ${found.matching.length}.`
  return fails(lane, message, { ...found, all: found.matching }, expected)
}

interface Found {
  readonly name: string
  /** Of the kind and status. */
  readonly all: readonly JobSnapshot[]
  readonly matching: readonly JobSnapshot[]
}

function laneOf(of: string, leasehold: object, { tx }: EnqueuedOptions): Lane {
  const { lane } = connectionOf(of, leasehold)
  return tx === undefined ? lane : lane.within(tx)
}

async function look(lane: Lane, kind: unknown, expected: unknown, { status }: EnqueuedOptions): Promise<Found> {
  const name = typeof kind === 'string' ? kind : (kind as Kind | undefined)?.name
  if (typeof name !== 'string') throw new InvalidOptionError('kind', "declare it with kind('name', { … })")
  const all: JobSnapshot[] = []
  const filter = status === undefined ? { kind: name } : { kind: name, status }
  for (let page: JobSnapshot[] = []; ; ) {
    const last = page.at(-1)
    page = await listJobs(lane, { ...filter, limit: PAGE, ...(last === undefined ? {} : { before: last.id }) })
    all.push(...page)
    if (page.length < PAGE) break
  }
  all.reverse()
  return { name, all, matching: all.filter((job) => fits(expected, job)) }
}

function fits(expected: unknown, job: JobSnapshot): boolean {
  if (expected === undefined) return true
  if (typeof expected === 'function') return Boolean(expected(job.input, job))
  // As JSON keeps it, which is how the input was stored.
  return isPart(JSON.parse(JSON.stringify(expected)), job.input)
}

/** Objects may have more members than expected; lists may not. */
function isPart(expected: unknown, actual: unknown): boolean {
  if (typeof expected !== 'object' || expected === null) return expected === actual
  if (typeof actual !== 'object' || actual === null) return false
  if (Array.isArray(expected) !== Array.isArray(actual)) return false
  if (Array.isArray(expected) && expected.length !== (actual as unknown[]).length) return false
  return Object.entries(expected).every(
    ([key, part]) => Object.hasOwn(actual, key) && isPart(part, (actual as Record<string, unknown>)[key]),
  )
}

function described({ name }: Found, expected: unknown, { status }: EnqueuedOptions): string {
  const input =
    expected === undefined ? '' : ` with input ${typeof expected === 'function' ? 'that fits' : shown(expected)}`
  return `kind ${JSON.stringify(name)}${status === undefined ? '' : `, ${status},`}${input} was expected`
}

async function fails(lane: Lane, message: string, { name, all }: Found, expected: unknown): Promise<never> {
  const instead = all.length > 0 ? listed(name, all) : await otherKinds(lane)
  const actual = all.slice(0, SHOWN).map(({ input }) => input)
  throw new AssertionError({ message: `${message}\n${instead}`, actual, expected, operator: 'enqueued' })
}

function listed(name: string, jobs: readonly JobSnapshot[]): string {
  const lines = jobs
    .slice(0, SHOWN)
    .map(({ id, label, status, input }) => `  job ${id}, ${label ?? status}: ${shown(input)}`)
  const more = jobs.length > SHOWN ? [`  and ${jobs.length - SHOWN} more`] : []
  return [`Jobs of kind ${JSON.stringify(name)}:`, ...lines, ...more].join('\n')
}

async function otherKinds(lane: Lane): Promise<string> {
  const rows = await lane.run<'kind' | 'jobs'>(COUNT_KINDS, [])
  if (rows.length === 0) return 'There are no jobs at all.'
  const kinds = rows.map(({ kind, jobs }) => `${JSON.stringify(kind)} (${jobs})`)
  const gone = 'None of this kind is there; completed jobs are deleted after its `keep`, by the clock of the database.'
  return `${gone} Kinds with jobs: ${kinds.join(', ')}.`
}

function shown(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: 120, maxStringLength: 200, maxArrayLength: 20 })
}
