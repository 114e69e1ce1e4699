import type { Log } from '../core/log.ts'
import { quotableOfChore, quotableOfRequest } from '../core/log-redaction.ts'
import { monotonicMs } from '../core/timer.ts'

const SAME_AGAIN_MS = 30_000

interface Trouble {
  readonly since: number
  readonly message: string
  readonly loggedAt: number
  /** Somebody was told, and will want to know that it is over. */
  readonly isLogged: boolean
  readonly isOver: boolean
}

/**
 * Logs what is in trouble when it is news: another text, or the same after half a minute. And, once, that it is over. What comes
 * and goes is told no more often than what stays.
 */
export class ProblemLog {
  readonly #log: Log
  readonly #now: () => number
  readonly #last = new Map<string, Trouble>()

  constructor(log: Log, now: () => number = monotonicMs) {
    this.#log = log
    this.#now = now
  }

  /** With a request of ours. */
  withRequest(doing: string, what: string, error: unknown): void {
    this.#has(doing, `${what}; trying again`, quotableOfRequest(error), error)
  }

  withChore(name: string, error: unknown): void {
    this.#has(`chore ${name}`, `trouble with the chore ${JSON.stringify(name)}`, quotableOfChore(error), error)
  }

  /** Cheap where there was no trouble. */
  over(doing: string, what: string): void {
    const trouble = this.#last.get(doing)
    if (trouble === undefined || trouble.isOver) return
    this.#last.set(doing, { ...trouble, isOver: true })
    if (!trouble.isLogged) return
    const seconds = Math.ceil((this.#now() - trouble.since) / 1_000)
    this.#log({ level: 'warn', message: `${what} again after ${seconds} s` })
  }

  /** What a chore has done. Rows that nobody tries any more are for people to look at. */
  choreDid(name: string, { givenUp = 0 }: Readonly<Record<string, number>> = {}): void {
    const chore = `the chore ${JSON.stringify(name)}`
    this.over(`chore ${name}`, `${chore} works`)
    if (givenUp === 0) return
    const rows = givenUp === 1 ? 'a row, which nobody tries' : `${givenUp} rows, which nobody tries`
    this.#log({ level: 'warn', message: `${chore} gave up on ${rows} any more` })
  }

  #has(doing: string, what: string, said: string, error: unknown): void {
    const message = said === '' ? what : `${what}: ${said}`
    const at = this.#now()
    const last = this.#last.get(doing)
    const goesOn = last !== undefined && !last.isOver
    const isNews = last === undefined || last.message !== message || at - last.loggedAt >= SAME_AGAIN_MS
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

/** Said when a process is told to end and does not at once. */
export function stoppingWords(handlers: number, graceMs: number, hearsSignals: boolean): string {
  const who = handlers === 1 ? '1 handler has' : `${handlers} handlers have`
  const hurry = hearsSignals ? '; a second signal aborts them now' : ''
  return `stopping: ${who} up to ${Math.round(graceMs / 100) / 10} s to end${hurry}`
}
