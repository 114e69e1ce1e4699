import { InvalidOptionError } from './errors.ts'
import { quotable } from './log-redaction.ts'

/** One line of a worker's or consumer's log. Inputs, results and connection strings are never in it. */
export interface LogEntry {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  /** The thrown value, unchanged. A handler's error message may quote its input. */
  readonly error?: unknown
  /** The label of the worker. */
  readonly worker?: string
  readonly jobId?: string
  readonly kind?: string
  /** Queue of the job, or of the messages that a consumer receives. */
  readonly queue?: string
  readonly generation?: number
  readonly attempt?: number
  readonly partitionKey?: string
  /** A write guard found that another writer came first. */
  readonly concurrentModification?: boolean
  readonly messageId?: string
  readonly rowId?: string
  readonly receiveCount?: number
}

export type Log = (entry: LogEntry) => void

/** Prints all but debug, one line each, to stderr: the name and code of an error, and the printable part of its message. */
export const logToStderr: Log = ({ level, message, error }) => {
  if (level === 'debug') return
  const quoted = quotable(error)
  const why = quoted === '' || message.includes(quoted) ? '' : `: ${quoted}`
  const text = `leasehold ${level}: ${message}${why}${error === undefined ? '' : ` (${brief(error)})`}`
  // One line, even if the name of a kind or of an error holds a line break.
  process.stderr.write(`${text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')}\n`)
}

function brief(error: unknown): string {
  try {
    const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
    const words = [name, code].filter((word) => typeof word === 'string' && word !== '') as string[]
    if (words.length > 0) return words.join(' ').slice(0, 200)
  } catch {
    // A getter threw.
  }
  return typeof error
}

/** The given log, or the one on stderr. Neither can throw into its caller. */
export function logOf(option: string, log: Log | undefined): Log {
  if (log === undefined) return harmless(logToStderr)
  if (typeof log === 'function') return harmless(log)
  const such = '({ level, message, ...rest }) => logger[level](rest, message)'
  throw new InvalidOptionError(option, `it must be a function; for a logger such as console or pino write ${such}`)
}

/** Drops the errors of a logger that throws or rejects: there is no other place to report them. */
export function harmless(log: Log): Log {
  return (entry) => {
    try {
      const answer: unknown = log(entry)
      if (answer instanceof Promise) answer.catch(() => {})
    } catch {}
  }
}
