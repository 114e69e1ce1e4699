/** The whole at a glance: status, queues, workers. */
import { roughDuration } from '../core/duration.ts'
import { likely } from '../core/options.ts'
import type { Count, QueueStats } from '../inspect/stats.ts'
import { findTrouble, sightOfTransactions, type Trouble } from '../inspect/trouble.ts'
import { WORKER_STATES, type WorkerSnapshot, type WorkerState } from '../inspect/workers.ts'
import type { Command } from './command.ts'
import { Failure, quoted } from './failure.ts'
import { checkKnown } from './jobs.ts'
import { type Column, table } from './table.ts'
import { neutral, type Style } from './terminal.ts'

function number({ jobs, atLeast }: Count): string {
  if (jobs === 0) return atLeast ? '0+' : '·'
  return `${jobs.toLocaleString('en')}${atLeast ? '+' : ''}`
}

function rate(perSecond: number): string {
  if (perSecond === 0) return '·'
  return perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en')
}

interface QueueColumn extends Column<QueueStats> {
  /** Shown only if a queue has such jobs. */
  readonly rare?: (queue: QueueStats) => Count
}

function counted(title: string, of: (queue: QueueStats) => Count, style?: Style): QueueColumn {
  const column = { title, align: 'right' as const, cell: (queue: QueueStats) => number(of(queue)) }
  return style === undefined ? column : { ...column, style: (queue) => (of(queue).jobs > 0 ? style : undefined) }
}

function rare(title: string, of: (queue: QueueStats) => Count, style?: Style): QueueColumn {
  return { ...counted(title, of, style), rare: of }
}

const QUEUE_COLUMNS: readonly QueueColumn[] = [
  {
    title: 'queue',
    cell: ({ queue, pausedAt }) => (pausedAt === null ? queue : `${queue} (paused)`),
    style: ({ pausedAt }) => (pausedAt === null ? 'bold' : 'yellow'),
  },
  counted('ready', ({ ready }) => ready),
  { title: 'oldest', align: 'right', cell: ({ oldestReadyMs: ms }) => (ms === null ? '·' : roughDuration(ms)) },
  counted('processing', ({ processing }) => processing, 'cyan'),
  { title: 'done/s', align: 'right', cell: ({ completedPerSecond }) => rate(completedPerSecond) },
  {
    title: 'failed/s',
    align: 'right',
    cell: ({ failedPerSecond }) => rate(failedPerSecond),
    style: ({ failedPerSecond }) => (failedPerSecond > 0 ? 'yellow' : undefined),
  },
  counted('dead', ({ deadLetters }) => deadLetters, 'red'),
  rare('retrying', ({ retrying }) => retrying, 'yellow'),
  rare('scheduled', ({ scheduled }) => scheduled),
  rare('waiting', ({ waiting }) => waiting),
  rare('blocked', ({ blocked }) => blocked, 'yellow'),
  rare('paused', ({ paused }) => paused, 'yellow'),
  rare('dead in 5m', ({ diedRecently }) => diedRecently, 'red'),
]

/** Columns of rarer states are left out while no queue has such jobs, so that the table fits a terminal. */
export function queueColumns(queues: readonly QueueStats[], width = NARROW): readonly Column<QueueStats>[] {
  const shown = QUEUE_COLUMNS.filter(({ rare }) => rare === undefined || queues.some((queue) => rare(queue).jobs > 0))
  return width < NARROW ? shown.map((column) => ({ ...column, most: 24 })) : shown
}

/** Below so many columns, long names give way to counts. */
const NARROW = 120

const NO_QUEUES = 'No queues: no job waits, none is a dead letter, no queue is configured, and no worker runs.\n'
const NO_WORKERS = 'No workers. `leasehold workers --state stopped` lists those that have ended.\n'

export const queues: Command = {
  name: 'queues',
  takes: '[name]',
  help: 'depth of each queue, the age of its oldest ready job, rates, dead letters',
  count: [0, 1],
  options: { 'count-to': { value: 'n', help: 'where counting stops; default: 500' } },
  run: (call) =>
    call.withDatabase(async (database) => {
      const [queue] = call.args
      const countTo = call.integer('count-to', 1, 1_000_000)
      if (queue !== undefined) await checkKnown(database, 'queue', queue)
      const found = await database.leasehold.stats({
        ...(queue === undefined ? {} : { queue }),
        ...(countTo === undefined ? {} : { countTo }),
      })
      call.print(found, () =>
        found.length === 0 ? NO_QUEUES : table(found, queueColumns(found, call.io.stdout.columns), call.paint),
      )
      return 0
    }),
}

const STATE_STYLES: Readonly<Record<WorkerState, Style>> = {
  active: 'green',
  draining: 'yellow',
  dead: 'red',
  stopped: 'dim',
}

const isUp = (state: WorkerState) => state === 'active' || state === 'draining'

const names = (all: readonly string[]) =>
  all.length <= 3 ? all.join(', ') : `${all.slice(0, 3).join(', ')} +${all.length - 3}`

const SEAT: Column<WorkerSnapshot> = {
  title: 'seat',
  align: 'right',
  cell: ({ seat }) => (seat === null ? '·' : String(seat)),
}

/** Ages are by the clock of this process, which may differ from the database's. */
export function workerColumns(workers: readonly WorkerSnapshot[], nowMs: number): readonly Column<WorkerSnapshot>[] {
  return [
    { title: 'worker', cell: ({ label }) => label, style: () => 'bold' },
    { title: 'state', cell: ({ state }) => state, style: ({ state }) => STATE_STYLES[state] },
    ...(workers.some(({ seat }) => seat !== null) ? [SEAT] : []),
    { title: 'seen', align: 'right', cell: ({ lastSeenAt }) => `${roughDuration(nowMs - Number(lastSeenAt))} ago` },
    {
      title: 'up',
      align: 'right',
      cell: ({ startedAt, lastSeenAt, state }) =>
        roughDuration((isUp(state) ? nowMs : Number(lastSeenAt)) - Number(startedAt)),
    },
    { title: 'running', align: 'right', cell: ({ running }) => (running === null ? '·' : String(running)) },
    { title: 'held', align: 'right', cell: ({ held }) => (held === null ? '·' : String(held)) },
    { title: 'loop', align: 'right', cell: ({ eventLoopMs: ms }) => (ms === null ? '·' : `${Math.round(ms)}ms`) },
    {
      title: 'memory',
      align: 'right',
      cell: ({ memoryBytes: bytes }) => (bytes === null ? '·' : `${Math.round(bytes / 2 ** 20)} MB`),
    },
    { title: 'queues', cell: ({ queues: all }) => names(all) },
    { title: 'kinds', most: 80, cell: ({ kinds }) => names(kinds) },
  ]
}

export const workers: Command = {
  name: 'workers',
  takes: '',
  help: 'worker processes: state, load, queues and kinds',
  count: [0, 0],
  options: {
    state: { value: 'state', help: `one of ${WORKER_STATES.join(', ')}; default: all but stopped` },
    queue: { value: 'name', help: 'only those that claim from this queue' },
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const [state, queue] = [call.text('state'), call.text('queue')]
      if (state !== undefined && !WORKER_STATES.includes(state as WorkerState)) {
        throw new Failure(`there is no state ${quoted(state)}; ${likely(state, WORKER_STATES)}`)
      }
      const found = await database.leasehold.workers({
        ...(state === undefined ? {} : { state: state as WorkerState }),
        ...(queue === undefined ? {} : { queue }),
      })
      if (found.length === 0 && queue !== undefined) await checkKnown(database, 'queue', queue)
      const text = () => table(found, workerColumns(found, Date.now()), call.paint, call.io.stdout.columns)
      call.print(found, () => (found.length === 0 ? NO_WORKERS : text()))
      return 0
    }),
}

export const status: Command = {
  name: 'status',
  takes: '',
  help: 'check queues and workers; list problems and exit with 1 if there are any',
  count: [0, 0],
  options: {
    'oldest-ready': { value: 'duration', help: 'how long a ready job may wait; default: 5m' },
    'open-transaction': { value: 'duration', help: 'how long a transaction may be open; default: 5m' },
  },
  run: (call) =>
    call.withDatabase(async ({ lane, name }) => {
      const trouble = await findTrouble(lane, {
        oldestReadyMs: call.milliseconds('oldest-ready') ?? 300_000,
        transactionMs: call.milliseconds('open-transaction') ?? 300_000,
      })
      const { role, seesAll } = await sightOfTransactions(lane)
      const isHealthy = trouble.length === 0
      call.print({ healthy: isHealthy, database: name, trouble, seesAllTransactions: seesAll }, () => {
        const limit = `role ${role} sees no transactions of other roles, so a long one is not reported; grant pg_read_all_stats to it`
        const note = seesAll ? '' : `  note: ${neutral(limit)}\n    ${call.paint('dim', '→ docs/roles.md')}\n`
        if (isHealthy) return `${call.paint('green', 'healthy')}  ${name}\n${note}`
        const lines = trouble.map(({ sentence, next, runbook }: Trouble) => {
          const after = `    → ${neutral(next)}\n    ${call.paint('dim', `→ ${runbook}`)}\n`
          return `  ${call.paint('red', '✗')} ${neutral(sentence)}\n${after}`
        })
        return `${call.paint('red', 'unhealthy')}  ${name}\n${lines.join('')}${note}`
      })
      return isHealthy ? 0 : 1
    }),
}
