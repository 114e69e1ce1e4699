/** Queues, workers and trouble, drawn again and again until q, Ctrl-C or SIGTERM. Without a terminal, drawn once. */
import { sleep } from '../core/timer.ts'
import { countWritten, type Written } from '../inspect/database.ts'
import type { QueueStats } from '../inspect/stats.ts'
import { findTrouble } from '../inspect/trouble.ts'
import type { Call, Command } from './command.ts'
import type { Database } from './connection.ts'
import { queueColumns, workerColumns } from './fleet.ts'
import { table } from './table.ts'
import { neutral } from './terminal.ts'

/** Without a cursor, and without wrapping: a line that is too long ends at the edge, so that the rows can be counted. */
const ALTERNATE_SCREEN = '\u001b[?1049h\u001b[?25l\u001b[?7l'
const BACK = '\u001b[?7h\u001b[?25h\u001b[?1049l'
/** To the top; each line ends with an erasure of its rest, and the picture with one of all below. */
const HOME = '\u001b[H'
const ERASE_LINE = '\u001b[K'
const ERASE_BELOW = '\u001b[J'

export const top: Command = {
  name: 'top',
  takes: '',
  help: 'queues, workers and trouble, live; q quits',
  count: [0, 0],
  options: {
    every: { value: 'duration', help: 'how often it is drawn; default: 2s' },
    once: { help: 'draw once, as without a terminal' },
  },
  run: (call) =>
    call.withDatabase(async (database) => {
      const everyMs = Math.max(200, call.milliseconds('every') ?? 2_000)
      const { stdout, stdin } = call.io
      if (call.json || call.flag('once') || stdout.isTTY !== true || stdin?.isTTY !== true) {
        const shot = await look(database)
        call.print(shot, () => picture(call, database, shot, undefined, 0))
        return 0
      }
      const quit = quitting(stdin, call.io.signal)
      stdout.write(ALTERNATE_SCREEN)
      try {
        let before: Shot | undefined
        while (!quit.signal.aborted) {
          const shot = await look(database)
          const rows = stdout.rows ?? 24
          const lines = picture(call, database, shot, before, rows).split('\n').slice(0, rows)
          if (!quit.signal.aborted) stdout.write(`${HOME}${lines.join(`${ERASE_LINE}\n`)}${ERASE_BELOW}`)
          before = shot
          await sleep(everyMs, quit.signal)
        }
      } finally {
        stdout.write(BACK)
        quit.restore()
      }
      return 0
    }),
}

type Shot = Awaited<ReturnType<typeof look>>

async function look({ leasehold, lane }: Database) {
  return {
    at: Date.now(),
    written: await countWritten(lane),
    queues: await leasehold.stats(),
    workers: await leasehold.workers({ limit: 100 }),
    trouble: await findTrouble(lane, { oldestReadyMs: 300_000, transactionMs: 300_000 }),
  }
}

const TROUBLE_AT_MOST = 6

/** Trouble first, then as many queues and workers as there are rows for. Rows 0: all of them. */
function picture(call: Call, database: Database, shot: Shot, before: Shot | undefined, rows: number): string {
  const { paint } = call
  const width = call.io.stdout.columns
  const heading = (text: string) => `\n${paint('bold', text)}\n`
  const isShort = rows > 0
  const trouble = isShort ? shot.trouble.slice(0, TROUBLE_AT_MOST) : shot.trouble
  // The first line, three headings with a blank line each, two headers of tables, a line about each part that is cut, and the end.
  const left = isShort ? Math.max(2, rows - 13 - trouble.length) : Number.POSITIVE_INFINITY
  const ofWorkers = Math.min(shot.workers.length, Math.max(Math.floor(left / 3), left - shot.queues.length))
  const workers = shot.workers.slice(0, ofWorkers)
  const queues = isShort ? busiest(shot.queues).slice(0, left - ofWorkers) : shot.queues
  const more = (all: readonly unknown[], shown: readonly unknown[], name: string) =>
    all.length > shown.length ? `${paint('dim', `… and ${all.length - shown.length} more: leasehold ${name}`)}\n` : ''
  return [
    `${paint('bold', 'leasehold')}  ${database.name}  ${new Date(shot.at).toISOString()}${ratesText(shot, before)}\n`,
    heading('Trouble'),
    shot.trouble.length === 0 ? `${paint('green', 'none')}\n` : '',
    ...trouble.map(({ sentence }) => `${paint('red', '✗')} ${neutral(sentence)}\n`),
    more(shot.trouble, trouble, 'status'),
    heading('Queues'),
    queues.length === 0 ? 'none\n' : table(queues, queueColumns(queues, width), paint),
    more(shot.queues, queues, 'queues'),
    heading('Workers'),
    workers.length === 0 ? 'none\n' : table(workers, workerColumns(workers, shot.at), paint, width),
    more(shot.workers, workers, 'workers'),
  ].join('')
}

function busiest(queues: readonly QueueStats[]): QueueStats[] {
  const load = ({ ready, processing, paused }: QueueStats) => ready.jobs + processing.jobs + paused.jobs
  return [...queues].sort((a, b) => load(b) - load(a))
}

/** By the server's counters, which it brings up to date every second or so. */
function ratesText({ at, written }: Shot, before: Shot | undefined): string {
  if (before === undefined) return ''
  const seconds = (at - before.at) / 1_000
  const rate = (of: keyof Written) => Math.max(0, (written[of] - before.written[of]) / seconds).toFixed(0)
  return `  finished ${rate('finished')}/s  failed or released ${rate('otherAttempts')}/s`
}

function quitting(stdin: NodeJS.ReadStream, asked: AbortSignal) {
  const quit = new AbortController()
  const end = () => quit.abort()
  const onKey = (key: Buffer) => {
    // Ctrl-C is a key, not a signal, while the terminal is raw.
    if (['q', 'Q', '\u0003', '\u0004'].includes(key.toString())) end()
  }
  if (asked.aborted) end()
  asked.addEventListener('abort', end)
  stdin.setRawMode(true)
  stdin.on('data', onKey)
  stdin.resume()
  return {
    signal: quit.signal,
    restore() {
      asked.removeEventListener('abort', end)
      stdin.off('data', onKey)
      stdin.setRawMode(false)
      stdin.pause()
    },
  }
}
