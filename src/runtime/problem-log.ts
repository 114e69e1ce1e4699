import type { Log } from '../core/log.ts'
import { quotableOfChore, quotableOfRequest } from '../core/log-redaction.ts'
import { monotonicMs } from '../core/timer.ts'

const REPEAT_MS = 30_000

interface Problem {
  readonly since: number
  readonly message: string
  readonly loggedAt: number
  /** Then its end is logged, too. */
  readonly isLogged: boolean
  readonly isOver: boolean
}

/**
 * Logs a problem when it is news: the first time, with another text, or after half a minute. Logs once that it is over. A problem
 * that comes and goes is logged no more often than one that stays.
 */
export class ProblemLog {
  readonly #log: Log
  readonly #now: () => number
  readonly #last = new Map<string, Problem>()

  constructor(log: Log, now: () => number = monotonicMs) {
    this.#log = log
    this.#now = now
  }

  /** A request of ours, to the database or a broker. */
  requestFailed(doing: string, what: string, error: unknown): void {
    this.#note(doing, `${what}; trying again`, quotableOfRequest(error), error)
  }

  choreFailed(name: string, error: unknown): void {
    this.#note(`chore ${name}`, `trouble with the chore ${JSON.stringify(name)}`, quotableOfChore(error), error)
  }

  /** Cheap when there was no problem. */
  over(doing: string, what: string): void {
    const problem = this.#last.get(doing)
    if (problem === undefined || problem.isOver) return
    this.#last.set(doing, { ...problem, isOver: true })
    if (!problem.isLogged) return
    const seconds = Math.ceil((this.#now() - problem.since) / 1_000)
    this.#log({ level: 'warn', message: `${what} again after ${seconds} s` })
  }

  /** Rows that have exhausted their attempts are logged, for people to look at. */
  choreDid(name: string, { givenUp = 0 }: Readonly<Record<string, number>> = {}): void {
    const chore = `the chore ${JSON.stringify(name)}`
    this.over(`chore ${name}`, `${chore} works`)
    if (givenUp === 0) return
    const rows = givenUp === 1 ? '1 row that has exhausted its' : `${givenUp} rows that have exhausted their`
    this.#log({ level: 'warn', message: `${chore} found ${rows} attempts` })
  }

  #note(doing: string, what: string, quoted: string, error: unknown): void {
    const message = quoted === '' ? what : `${what}: ${quoted}`
    const at = this.#now()
    const last = this.#last.get(doing)
    const goesOn = last !== undefined && !last.isOver
    const isNews = last === undefined || last.message !== message || at - last.loggedAt >= REPEAT_MS
    this.#last.set(doing, {
      since: goesOn ? last.since : at,
      message,
      loggedAt: isNews ? at : last.loggedAt,
      isLogged: isNews || (goesOn && last.isLogged),
      isOver: false,
    })
    if (isNews) this.#log({ level: 'warn', message, error })
  }
}
