/** What a worker has to say to people. Inputs, results and connection strings are never in it. */
export interface LogEntry {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  /** What was thrown, by the database or by a handler. A handler's message is its author's affair, so it is not printed by default. */
  readonly error?: unknown
  readonly jobId?: string
  readonly kind?: string
  /** Of another queue, in a consumer of it. */
  readonly messageId?: string
  readonly rowId?: string
  readonly receiveCount?: number
}

export type Log = (entry: LogEntry) => void

/** Warnings and errors, a line each on stderr: the name and code of an error, and not its message. */
export const logToStderr: Log = ({ level, message, error }) => {
  if (level === 'info') return
  const text = `leasehold ${level}: ${message}${error === undefined ? '' : ` (${brief(error)})`}`
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

/** A logger that throws, or whose promise rejects, has nobody left to tell. */
export function harmless(log: Log): Log {
  return (entry) => {
    try {
      const answer: unknown = log(entry)
      if (answer instanceof Promise) answer.catch(() => {})
    } catch {}
  }
}
