import { InvalidOptionError } from './errors.ts'
import { quotable } from './log-redaction.ts'

/** One line of a worker's or consumer's log. Inputs, results and connection strings are never in it. */
export interface LogEntry {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly message: string
  /** What was thrown, as it is. A handler's message is its author's affair, and may quote what it worked on. */
  readonly error?: unknown
  /** The label of the worker. */
  readonly worker?: string
  readonly jobId?: string
  readonly kind?: string
  /** Of the job, or of the messages that a consumer receives. */
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

/** All but debug, a line each on stderr: the name and code of an error, and what may be quoted of its message. */
export const logToStderr: Log = ({ level, message, error }) => {
  if (level === 'debug') return
  const said = quotable(error)
  const why = said === '' || message.includes(said) ? '' : `: ${said}`
  const text = `leasehold ${level}: ${message}${why}${error === undefined ? '' : ` (${brief(error)})`}`
  // One line, whatever a kind is called or an error calls itself.
  process.stderr.write(`${text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')}\n`)
}

function brief(error: unknown): string {
  try {
    const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
    const words = [name, code].filter((word) => typeof word === 'string' && word !== '') as string[]
    if (words.length > 0) return words.join(' ').slice(0, 200)
  } catch {
    // Read by getters that throw.
  }
  return typeof error
}

/** The log of that option, or the one on stderr. Neither can harm who writes to it. */
export function logOf(option: string, log: Log | undefined): Log {
  if (log === undefined) return harmless(logToStderr)
  if (typeof log === 'function') return harmless(log)
  const such = '({ level, message, ...rest }) => logger[level](rest, message)'
  throw new InvalidOptionError(option, `it must be a function; for a logger such as console or pino write ${such}`)
}

/** A logger that throws, or whose promise rejects, has nobody left to tell. */
export function harmless(log: Log): Log {
  return (entry) => {
    try {
      const answer: unknown = log(entry)
      if (answer instanceof Promise) answer.catch(() => {})
    } catch {}
  }
}
