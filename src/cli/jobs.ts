/** Jobs, one by one: ls, show, why, enqueue. */

import { roughDuration } from '../core/duration.ts'
import { declareKind } from '../core/kind.ts'
import { likely } from '../core/options.ts'
import { knownNames } from '../inspect/database.ts'
import type { JobSnapshot } from '../inspect/jobs.ts'
import { listQueues } from '../inspect/stats.ts'
import { shellOption } from '../inspect/trouble.ts'
import { time } from '../inspect/why.ts'
import { STATUSES, type Status } from '../jobs/job.ts'
import type { Call, Command } from './command.ts'
import type { Database } from './connection.ts'
import { Failure, quoted } from './failure.ts'
import { nextStep } from './next-step.ts'
import { type Column, list, table } from './table.ts'
import { neutral, neutralJson, type Style } from './terminal.ts'

const COLOURS: Readonly<Record<string, Style>> = {
  processing: 'cyan',
  completed: 'green',
  dead_letter: 'red',
  cancelled: 'dim',
  retrying: 'yellow',
  blocked: 'yellow',
  paused: 'yellow',
}

function state({ status, label }: JobSnapshot): string {
  return label ?? status
}

const errorText = ({ lastError }: JobSnapshot) => (lastError === null ? '' : `${lastError.name}: ${lastError.message}`)

const COLUMNS: readonly Column<JobSnapshot>[] = [
  { title: 'id', align: 'right', cell: ({ id }) => id },
  { title: 'queue', cell: ({ queue }) => queue },
  { title: 'kind', cell: ({ kind }) => kind },
  { title: 'state', cell: state, style: (job) => COLOURS[state(job)] },
  { title: 'tries', align: 'right', cell: ({ attempts, maxAttempts }) => `${attempts}/${maxAttempts}` },
  { title: 'enqueued', cell: ({ enqueuedAt }) => enqueuedAt.toISOString() },
  { title: 'reason and error', most: 200, cell: (job) => [job.reason, errorText(job)].filter(Boolean).join('; ') },
]

/** Fails unless the name is one that was configured, or that a worker has; a queue may also have jobs. */
export async function checkKnown(database: Database, what: 'queue' | 'kind', name: string): Promise<void> {
  const { kinds, ended, queues } = await knownNames(database.lane)
  const names =
    what === 'kind' ? [...kinds.keys(), ...ended] : [...queues, ...[...kinds.values()].map(({ queue }) => queue)]
  if (names.includes(name)) return
  if (what === 'queue') names.push(...(await listQueues(database.lane)))
  if (names.includes(name)) return
  const all = [...new Set(names)].filter((known) => known !== null).sort()
  const hint = all.length === 0 ? `none is known in database ${database.name}` : likely(name, all.slice(0, 20))
  throw new Failure(`there is no ${what} ${quoted(name)}; ${hint}`)
}

export const ls: Command = {
  name: 'ls',
  takes: '',
  help: 'list jobs, newest first',
  count: [0, 0],
  options: {
    queue: { value: 'name', help: 'only of this queue' },
    kind: { value: 'name', help: 'only of this kind' },
    status: { value: 'status', help: `one of ${STATUSES.join(', ')}` },
    limit: { value: 'n', help: 'at most so many; default: 20' },
    before: { value: 'id', help: 'only jobs enqueued before this one' },
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const { queue, kind, status } = named(call, ['queue', 'kind', 'status'])
      const before = call.id('before')
      if (status !== undefined && !STATUSES.includes(status as Status)) {
        throw new Failure(`there is no status ${quoted(status)}; ${likely(status, STATUSES)}`)
      }
      const limit = call.integer('limit', 1, 1_000) ?? 20
      const jobs = await database.leasehold.list({
        limit,
        ...(queue === undefined ? {} : { queue }),
        ...(kind === undefined ? {} : { kind }),
        ...(before === undefined ? {} : { before }),
        ...(status === undefined ? {} : { status: status as Status }),
      })
      if (jobs.length === 0 && queue !== undefined) await checkKnown(database, 'queue', queue)
      if (jobs.length === 0 && kind !== undefined) await checkKnown(database, 'kind', kind)
      call.print(jobs, () =>
        jobs.length === 0 ? 'No jobs.\n' : table(jobs, COLUMNS, call.paint, call.io.stdout.columns),
      )
      if (jobs.length === limit && !call.json) {
        const filters = Object.entries({ queue, kind, status }).flatMap(([name, value]) =>
          value === undefined ? [] : [shellOption(name, value)],
        )
        call.note(`… and maybe more: ${['leasehold ls', ...filters, '--before', jobs.at(-1)!.id].join(' ')}`)
      }
      return 0
    }),
}

/** The options that were given, by name. */
function named<Name extends string>(call: Call, names: readonly Name[]): Record<Name, string | undefined> {
  return Object.fromEntries(names.map((name) => [name, call.text(name)])) as Record<Name, string | undefined>
}

export const show: Command = {
  name: 'show',
  takes: '<id>',
  help: 'one job with its input, attempts and effects',
  count: [1, 1],
  options: {},
  run: (call) =>
    call.withDatabase(async ({ leasehold, name }) => {
      const [id] = call.ids() as [string]
      const job = await leasehold.get(id)
      if (job === undefined) throw notFound(id, name)
      const attempts = await leasehold.attempts(id)
      const effects = await leasehold.effects(id)
      const because = await leasehold.why(id)
      call.print({ ...job, why: because, attempts, effects }, () => {
        const { paint } = call
        const columns = call.io.stdout.columns
        const heading = (text: string) => `\n${paint('bold', text)}\n`
        const parts = [list(fieldsOf(job, because.sentence, call), paint)]
        if (attempts.length > 0) {
          const ofAttempt: Column<(typeof attempts)[number]>[] = [
            { title: '#', align: 'right', cell: ({ attempt }) => String(attempt) },
            { title: 'outcome', cell: ({ outcome }) => outcome, style: ({ outcome }) => COLOURS[outcome] },
            { title: 'started', cell: ({ startedAt }) => startedAt.toISOString() },
            {
              title: 'took',
              align: 'right',
              cell: ({ startedAt, endedAt }) => roughDuration(Number(endedAt) - Number(startedAt)),
            },
            { title: 'worker', cell: ({ worker }) => worker.label ?? worker.id },
            {
              title: 'error',
              most: 200,
              cell: ({ error }) => (error === null ? '' : `${error.name}: ${error.message}`),
            },
          ]
          parts.push(heading('Attempts'), table(attempts, ofAttempt, paint, columns))
        }
        if (effects.length > 0) {
          const ofEffect: Column<(typeof effects)[number]>[] = [
            { title: 'effect', cell: (effect) => effect.name },
            {
              title: 'state',
              cell: (effect) => effect.state,
              style: (effect) => (effect.state === 'done' ? 'green' : 'yellow'),
            },
            { title: 'started', cell: ({ startedAt }) => startedAt.toISOString() },
            {
              title: 'took',
              align: 'right',
              cell: ({ startedAt, finishedAt: end }) =>
                end === null ? '·' : roughDuration(Number(end) - Number(startedAt)),
            },
            { title: 'result', most: 200, cell: ({ result }) => (result == null ? '' : neutralJson(result)) },
          ]
          parts.push(heading('Effects'), table(effects, ofEffect, paint, columns))
        }
        return parts.join('')
      })
      return 0
    }),
}

function fieldsOf(job: JobSnapshot, sentence: string, { paint }: Call): [string, string][] {
  const colour = COLOURS[state(job)]
  const shown: [string, string | null][] = [
    ['id', job.id],
    ['queue', neutral(job.queue)],
    ['kind', neutral(job.kind)],
    ['state', colour === undefined ? state(job) : paint(colour, state(job))],
    ['why', neutral(sentence)],
    ['attempts', `${job.attempts} of ${job.maxAttempts}`],
    ['priority', String(job.priority)],
    ['enqueued', job.enqueuedAt.toISOString()],
    ['available', job.status === 'pending' ? time(job.availableAt) : null],
    ['finished', job.finishedAt?.toISOString() ?? null],
    ['key', job.partitionKey === null ? null : neutral(job.partitionKey)],
    ['idempotency key', job.idempotencyKey === null ? null : neutral(job.idempotencyKey)],
    ['error', job.lastError === null ? null : neutral(errorText(job))],
    ['metadata', job.metadata === null ? null : neutralJson(job.metadata)],
    ['progress', job.progress === null ? null : neutralJson(job.progress)],
    ['input', neutralJson(job.input)],
    ['result', job.result === null ? null : neutralJson(job.result)],
  ]
  return shown.filter((entry): entry is [string, string] => entry[1] !== null)
}

export function notFound(id: string, database: string): Failure {
  return new Failure(`no job ${id} in database ${database}: unknown id, past its retention, or its kind keeps nothing`)
}

export const why: Command = {
  name: 'why',
  takes: '<id>',
  help: 'why a job does not run, or what became of it',
  count: [1, 1],
  options: {},
  run: (call) =>
    call.withDatabase(async ({ leasehold, name }) => {
      const [id] = call.ids() as [string]
      const answer = await leasehold.why(id)
      if (answer.because === 'not_found') throw notFound(id, name)
      const next = nextStep(answer)
      const after = next === undefined ? '' : `  → ${neutral(next)}\n`
      call.print(answer, () => `Job ${id}: ${neutral(answer.sentence)}\n${after}`)
      return 0
    }),
}

export const enqueue: Command = {
  name: 'enqueue',
  takes: '<kind> <json>',
  help: 'store a job',
  count: [2, 2],
  options: {
    queue: { value: 'name', help: "default: the kind's; names the queue of a kind that is not known" },
    key: { value: 'key', help: 'partition key' },
    'idempotency-key': { value: 'key', help: 'one job per queue and key' },
    priority: { value: '0-9', help: "0 first; default: the kind's" },
    delay: { value: 'duration', help: 'earliest start, from now' },
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const [name, text] = call.args as [string, string]
      const input = parseJson(text)
      const { queue, key, 'idempotency-key': once } = named(call, ['queue', 'key', 'idempotency-key'])
      const known = (await knownNames(database.lane)).kinds.get(name)
      const inQueue = queue ?? known?.queue
      if (inQueue == null) {
        await checkKnown(database, 'kind', name)
        throw new Failure(`kind ${quoted(name)} is not configured, and no running worker tells its queue; pass --queue`)
      }
      const options = {
        queue: inQueue,
        ...(known?.maxAttempts == null ? {} : { maxAttempts: known.maxAttempts }),
        ...(known?.priority == null ? {} : { priority: known.priority }),
        ...(known?.keepKeyMs == null ? {} : { keepKey: known.keepKeyMs }),
      }
      const priority = call.integer('priority', 0, 9)
      const delay = call.milliseconds('delay')
      const stored = await database.leasehold.enqueue(declareKind(name, options), input, {
        ...(key === undefined ? {} : { partitionKey: key }),
        ...(once === undefined ? {} : { idempotencyKey: once }),
        ...(priority === undefined ? {} : { priority }),
        ...(delay === undefined ? {} : { delay }),
      })
      call.print(stored, () => `Job ${stored.jobId}: ${stored.outcome}.\n`)
      return 0
    }),
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Failure(`the input is not JSON; write it in single quotes, such as '{"orderId": 7}'`)
  }
}
