/** The results as tables: for a terminal and for docs/benchmarks.md. The JSON line holds the same, unrounded. */
import type { Ratio } from './bars.ts'
import { columns } from './columns.ts'
import type { Figure, Measure, Subject } from './results.ts'

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

const TITLES: Readonly<Record<string, string>> = {
  drain: 'drain: a full queue is emptied by one worker process',
  enqueue: 'enqueue: in bulk, one producer, one batch after the other',
  single: 'single: begin, insert an order, enqueue one job, commit',
  steady: 'steady: one producer and one worker process at the same time; the database serves both',
  idle: 'idle: from the enqueue of a job to the start of its handler, nothing else going on',
  'trickle-50':
    'trickle-50: 300 jobs/s come one by one, handlers take 100 ms on average, 50 at a time (costs in µs/job)',
  'trickle-10': 'trickle-10: the same with 60 jobs/s, 10 at a time',
  workers: 'workers: so many worker processes empty one queue, handlers do nothing',
  'workers-5-ms': 'workers-5-ms: the same, handlers wait 5 ms, 50 at a time in each process',
  async: 'async: handlers that wait 20 ms, 500 at a time (25,000 a second would be ideal)',
  'batch-1': 'batch-1: one job at a time from end to end, nothing claimed ahead',
  'one-handler':
    'one-handler: one handler at a time, which does nothing; jobs are claimed ahead and completed together',
  'never-analyzed': 'never-analyzed: drain, but the tables were never vacuumed or analyzed',
  backlog: 'backlog: processor time per job, a million waiting ÷ few waiting',
  'held-snapshot': 'held-snapshot: processor time per job, an old snapshot held ÷ not held',
  'held-snapshot-long':
    'held-snapshot-long: 2,000 jobs/s under an old snapshot: processor time per job, last fifth ÷ second fifth',
  scheduled: 'scheduled: processor time per job, a million scheduled and a million finished beside ÷ alone',
  'order-keys': 'order-keys: a backlog of 1,000 keys, in turns, is emptied by one worker process',
  'order-one-key': 'order-one-key: the same, all jobs with one key',
  'order-enqueue': 'order-enqueue: in bulk, 1,000 keys',
  'order-enqueue-own-key': 'order-enqueue-own-key: in bulk, each job with a key of its own',
  'order-single': 'order-single: one call for each job, 1,000 keys',
  'order-claim': 'order-claim: a claim of up to 50 jobs, rolled back',
  'order-front': 'order-front: from enqueue to start, jobs of one other key in front',
  'fair-claim':
    'fair-claim: a claim of up to 50 jobs of a fair queue, and the number of the first claim that has another key',
  'order-beside': 'order-beside: an unordered queue, processor time with an ordered queue beside ÷ without',
  fleet: 'fleet: so many worker processes empty one queue of jobs with keys, handlers do nothing',
  'fleet-5-ms': 'fleet-5-ms: the same, handlers wait 5 ms, 50 at a time in each process',
  'fleet-enqueue': 'fleet-enqueue: jobs with keys in bulk',
  'fleet-single': 'fleet-single: one call for each job',
  'fleet-claim': 'fleet-claim: a claim by one of 8 seats, rolled back, with and without jobs of the other seats',
  'fleet-idle': 'fleet-idle: 16 worker processes that have nothing to do; statements that each sends',
  'fleet-takeover': 'fleet-takeover: from kill -9 of one of two workers until the other has done jobs of all keys',
  'fleet-moved': 'fleet-moved: buckets that another worker joining moves, by the map',
  'in-flight': 'in-flight: processor time per job, 20,000 held by another worker ÷ alone',
}

const LABELS: Readonly<Record<Measure, string>> = {
  jobsPerSecond: 'jobs/s',
  nodeMicrosPerJob: 'Node µs/job',
  databaseMicrosPerJob: 'database µs/job',
  workerDatabaseMicrosPerJob: "its database's",
  workerMicrosPerJob: "worker's side",
  producerDatabaseMicrosPerJob: "producer's database",
  totalMicrosPerJob: 'total',
  statementsPerJob: 'statements/job',
  commitsPerJob: 'commits/job',
  perSecondAtP50: 'per second at p50',
  p50Ms: 'p50 ms',
  p99Ms: 'p99 ms',
  claimMicros: 'database µs/claim',
  claims: 'another key in claim',
  costRatio: 'ratio',
  backlogSeconds: 'seconds behind',
  statementsPerSecond: 'statements/s',
  takeoverSeconds: 'seconds',
  movedPercent: '% moved',
  rssMiB: 'RSS MiB',
  heapMiB: 'heap MiB',
}

/** The package is known for Redis; what is measured is `createPostgresBackend` of the same package. */
export function nameOf(subject: string): string {
  return subject === 'bullmq' ? 'BullMQ (its Postgres backend)' : subject
}

export function figureTables(figures: readonly Figure[]): Table[] {
  return distinct(figures.map(({ scenario }) => scenario)).map((scenario) => {
    const own = figures.filter((figure) => figure.scenario === scenario)
    const measures = distinct(own.map(({ measure }) => measure))
    const rows = distinct(own.map(({ contender }) => contender)).map((contender) => row(own, contender, measures))
    return {
      title: TITLES[scenario] ?? scenario,
      head: ['', ...measures.map((measure) => LABELS[measure]), 'jobs'],
      rows,
    }
  })
}

export function ratioTable(ratios: readonly Ratio[]): Table {
  return {
    title: 'ratios within this run',
    head: ['', 'value', 'bar', ''],
    rows: ratios.map(({ name, value, bar, holds }) => {
      return [name, value.toFixed(2), bar ?? '', holds === null ? '' : holds ? 'holds' : 'MISSED']
    }),
  }
}

export function forTerminal({ title, head, rows }: Table): string {
  return `${title}\n${columns(head, rows, 1)}`
}

export function asMarkdown({ title, head, rows }: Table): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rule = `|---|${'---:|'.repeat(head.length - 1)}`
  return `**${title}**\n\n${[line(head), rule, ...rows.map(line)].join('\n')}`
}

function row(figures: readonly Figure[], contender: Subject, measures: readonly Measure[]): string[] {
  const own = figures.filter((figure) => figure.contender === contender)
  const cells = measures.map((measure) => cell(own.find((figure) => figure.measure === measure)))
  return [nameOf(contender), ...cells, own[0]!.jobs.toLocaleString('en')]
}

/** The median, and the spread when there were several rounds. */
function cell(figure: Figure | undefined): string {
  if (figure === undefined) return ''
  const { median, min, max, rounds } = figure
  return rounds.length === 1 ? rounded(median) : `${rounded(median)} (${rounded(min)}–${rounded(max)})`
}

function rounded(value: number): string {
  if (value >= 1_000) return (Math.round(value / 10) * 10).toLocaleString('en')
  if (value >= 100) return value.toFixed(0)
  if (value >= 0.1 || value === 0) return value.toFixed(value >= 10 ? 1 : 2)
  return value.toPrecision(2)
}

function distinct<Value>(values: readonly Value[]): Value[] {
  return [...new Set(values)]
}
