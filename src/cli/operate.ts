/** What changes jobs: retry, redrive, cancel, pause, resume. */
import { userInfo } from 'node:os'
import { roughDuration } from '../core/duration.ts'
import { likely } from '../core/options.ts'
import { sleep } from '../core/timer.ts'
import { type DeadLetter, deadLetters } from '../inspect/dead-letters.ts'
import { REASONS } from '../inspect/why.ts'
import type { Call, Command, Option } from './command.ts'
import type { Database } from './connection.ts'
import { Failure, quoted } from './failure.ts'
import { checkKnown, notFound } from './jobs.ts'
import { type Column, table } from './table.ts'
import { neutral } from './terminal.ts'

export const YES: Option = { help: 'do it: without it, the command only names what it would do' }
export const BY: Option = { value: 'name', help: 'who does it, for the record of operator actions' }
const BATCH = 500
const NONE = 'No dead letters fit.\n'

export function byOf(call: Call): { readonly by?: string } {
  const by = call.text('by') ?? (call.io.env.USER || userName())
  return by === undefined || by === '' ? {} : { by }
}

/** Containers often set no USER. */
function userName(): string | undefined {
  try {
    return userInfo().username
  } catch {
    return undefined // A user id without an entry.
  }
}

export const retry: Command = {
  name: 'retry',
  takes: '<id> …',
  help: 'return dead letters to their queue; several need --yes',
  count: [1, 1_000],
  options: { yes: YES, by: BY },
  run: (call) =>
    call.withDatabase(async (database) => {
      const ids = call.ids()
      if (ids.length > 1) call.confirm(`retry ${lettersText(ids.length)}`, database)
      const { leasehold } = database
      const revived = await leasehold.redrive(ids, byOf(call))
      const others = ids.filter((id) => !(revived as string[]).includes(id))
      const answers = await Promise.all(others.map((id) => leasehold.why(id)))
      const [only] = answers
      if (ids.length === 1 && only?.because === 'not_found') throw notFound(ids[0]!, database.name)
      const outcomes = [
        ...revived.map((jobId) => ({ jobId, outcome: 'pending', sentence: 'It is pending again.' })),
        ...answers.map(({ jobId, because, sentence }) => ({ jobId, outcome: because, sentence })),
      ]
      call.print(outcomes, () => outcomes.map(({ jobId, sentence }) => line(jobId, sentence)).join(''))
      if (others.length > 0 && !call.json) call.note('Only dead letters are retried: a pending job runs by itself.')
      return others.length === 0 ? 0 : 1
    }),
}

export const cancel: Command = {
  name: 'cancel',
  takes: '<id> …',
  help: 'cancel pending jobs and abort running ones; needs --yes',
  count: [1, 1_000],
  options: { reason: { value: 'text', help: 'why, kept with the job' }, yes: YES, by: BY },
  run: (call) =>
    call.withDatabase(async (database) => {
      const ids = call.ids()
      if (ids.length === 1) {
        const { because, sentence } = await database.leasehold.why(ids[0]!)
        if (because === 'not_found') throw notFound(ids[0]!, database.name)
        if (because === 'completed' || because === 'cancelled' || because === 'dead_letter') {
          throw new Failure(`job ${ids[0]} has ended, and cannot be cancelled. ${sentence}`, 1)
        }
      }
      call.confirm(ids.length === 1 ? `cancel job ${ids[0]}` : `cancel ${ids.length} jobs`, database)
      const reason = call.text('reason')
      const outcomes: { jobId: string; outcome: string }[] = []
      for (const jobId of ids) {
        const outcome = await database.leasehold.cancel(jobId, {
          ...byOf(call),
          ...(reason === undefined ? {} : { reason }),
        })
        outcomes.push({ jobId, outcome })
      }
      const sentences: Record<string, string> = {
        cancelled: 'it is cancelled.',
        requested: 'it runs, and was asked to stop.',
        busy: 'it is locked by another transaction; try again.',
        not_found: 'it has ended, or the id is unknown; nothing was changed.',
      }
      call.print(outcomes, () => outcomes.map(({ jobId, outcome }) => line(jobId, sentences[outcome]!)).join(''))
      return outcomes.every(({ outcome }) => outcome === 'cancelled' || outcome === 'requested') ? 0 : 1
    }),
}

function line(jobId: string, sentence: string): string {
  return `Job ${jobId}: ${sentence}\n`
}

function lettersText(count: number): string {
  return count === 1 ? '1 dead letter' : `${count.toLocaleString('en')} dead letters`
}

interface Part {
  readonly queue: string
  readonly kind: string
  readonly reason: string
  letters: number
  readonly error: string
}

const PARTS: readonly Column<Part>[] = [
  { title: 'dead letters', align: 'right', cell: ({ letters }) => letters.toLocaleString('en') },
  { title: 'queue', cell: ({ queue }) => queue },
  { title: 'kind', cell: ({ kind }) => kind },
  { title: 'reason', cell: ({ reason }) => reason },
  { title: 'error of the oldest', most: 200, cell: ({ error }) => error },
]

export const redrive: Command = {
  name: 'redrive',
  takes: '',
  help: 'return all dead letters that match to their queue; needs --yes',
  count: [0, 0],
  options: {
    queue: { value: 'name', help: 'only of this queue' },
    kind: { value: 'name', help: 'only of this kind' },
    reason: { value: 'reason', help: 'only with this reason, such as attempts_exhausted' },
    error: { value: 'text', help: 'only if the error holds this text, in any case' },
    'older-than': { value: 'duration', help: 'only if it died at least so long ago' },
    limit: { value: 'n', help: 'at most so many, oldest first; default: 10000' },
    rate: { value: 'n', help: 'at most so many a second; default: no limit' },
    preview: { help: 'print what fits, and change nothing' },
    yes: YES,
    by: BY,
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const rate = call.integer('rate', 1, 100_000)
      const fitting = await collect(call, database)
      const parts = partsOf(fitting)
      if (call.flag('preview')) {
        const text = () => (parts.length === 0 ? NONE : table(parts, PARTS, call.paint))
        call.print(parts, text)
        return 0
      }
      const found = fitting.length
      if (found > 0) call.confirm(`redrive ${lettersText(found)}${paceText(found, rate)}`, database)
      const redriven = await redriveAll(call, database, fitting, rate)
      call.print({ found, redriven }, () => (found === 0 ? NONE : `Redriven: ${redriven} of ${found}.\n`))
      return call.io.signal.aborted ? 1 : 0
    }),
}

async function collect(call: Call, database: Database): Promise<DeadLetter[]> {
  const limit = call.integer('limit', 1, 1_000_000) ?? 10_000
  const [queue, kind] = [call.text('queue'), call.text('kind')]
  const reason = call.text('reason')
  if (reason !== undefined && !Object.hasOwn(REASONS, reason)) {
    throw new Failure(`there is no reason ${quoted(reason)}; ${likely(reason, Object.keys(REASONS))}`)
  }
  const fitting: DeadLetter[] = []
  const filter = {
    queue,
    kind,
    reason,
    error: call.text('error'),
    olderThanMs: call.milliseconds('older-than'),
  }
  for await (const page of deadLetters(database.lane, filter)) {
    fitting.push(...page)
    if (fitting.length > limit || call.io.signal.aborted) break
  }
  if (fitting.length === 0 && queue !== undefined) await checkKnown(database, 'queue', queue)
  if (fitting.length === 0 && kind !== undefined) await checkKnown(database, 'kind', kind)
  if (fitting.length > limit) call.note(`more than ${lettersText(limit)} fit: these are the oldest; --limit takes more`)
  return fitting.slice(0, limit)
}

function paceText(letters: number, rate: number | undefined): string {
  return rate === undefined || letters <= rate ? '' : `, in about ${roughDuration((letters / rate) * 1_000)},`
}

function partsOf(letters: readonly DeadLetter[]): Part[] {
  const parts = new Map<string, Part>()
  for (const { queue, kind, reason, error } of letters) {
    const of = JSON.stringify([queue, kind, reason])
    const part = parts.get(of) ?? { queue, kind, reason, letters: 0, error }
    part.letters++
    parts.set(of, part)
  }
  return [...parts.values()].sort((a, b) => b.letters - a.letters)
}

/** In batches; with a rate, one batch a second. Ends early, between batches, when the process is asked to end. */
async function redriveAll(
  call: Call,
  database: Database,
  letters: readonly DeadLetter[],
  rate: number | undefined,
): Promise<number> {
  const size = Math.min(rate ?? BATCH, BATCH)
  const pauseMs = rate === undefined ? 0 : (size / rate) * 1_000
  let revived = 0
  for (let from = 0; from < letters.length; from += size) {
    if (from > 0 && pauseMs > 0) await sleep(pauseMs, call.io.signal)
    if (call.io.signal.aborted) break
    const ids = letters.slice(from, from + size).map(({ id }) => id)
    revived += (await database.leasehold.redrive(ids, byOf(call))).length
  }
  return revived
}

const TARGET = {
  queue: { value: 'name', help: 'a queue, with all its kinds' },
  kind: { value: 'name', help: 'a kind, in every queue' },
  by: BY,
}

function switching(name: 'pause' | 'resume', help: string): Command {
  return {
    name,
    takes: '--queue <name> | --kind <name>',
    help,
    count: [0, 0],
    options: TARGET,
    run: (call) =>
      call.withDatabase(async (database) => {
        const [queue, kind] = [call.text('queue'), call.text('kind')]
        if ((queue === undefined) === (kind === undefined))
          throw new Failure(`write: leasehold ${name} --queue <name>, or --kind <name>`)
        const target = queue === undefined ? { kind: kind! } : { queue }
        const check = () => checkKnown(database, queue === undefined ? 'kind' : 'queue', (queue ?? kind)!)
        if (name === 'pause') await check()
        const outcome = await database.leasehold[name](target, byOf(call))
        // What was paused may be unknown otherwise: its workers have stopped.
        if (outcome === 'not_paused') await check()
        const answer = { ...target, outcome, database: database.name }
        const what = `${queue === undefined ? 'Kind' : 'Queue'} ${neutral(JSON.stringify(queue ?? kind))}`
        call.print(answer, () => `${what}: ${outcome.replaceAll('_', ' ')}, in database ${database.name}.\n`)
        return 0
      }),
  }
}

export const pause = switching('pause', 'start no more jobs of a queue or kind')
export const resume = switching('resume', 'start jobs of a queue or kind again')
