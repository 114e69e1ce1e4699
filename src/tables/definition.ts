/** The declaration of a user's table: its names, statuses and arrows. Checked once, when it is declared. */
import { createHash } from 'node:crypto'
import { type BackoffOption, checkBackoff } from '../core/backoff.ts'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { quoteName, quoteTable, renderNames } from '../db/identifier.ts'

/** From each status, the statuses that a row may go to next. */
export type Arrows = Readonly<Record<string, readonly string[]>>

export interface StatusTableOptions<A extends Arrows = Arrows, Column extends string = string> {
  /** Transitions of one step. Default: from ready to done, pending → completed. */
  readonly arrows?: A
  /** Columns of yours that a transition may set. Default: none. */
  readonly columns?: readonly Column[]
  /** The statuses of two-phase work: claim, then commit. False: none. Default: pending, processing, … */
  readonly phases?: Partial<Phases> | false
  /** The columns that are read and written, if yours have other names. sql() prints those of two phases. */
  readonly names?: Partial<Names>
  /** A claim is reclaimed when its holder stops renewing for this long. Default: 15m. */
  readonly stuckAfter?: Duration
  /** An effect that takes longer is aborted, and its claim is no longer renewed. Default: 1h. */
  readonly timeout?: Duration
  /** Failed and lost attempts before `error` is final. Default: 5. */
  readonly maxAttempts?: number
  /** The delay after a failure: doubles from `first` up to `max`, a quarter of it random. Default: 30s, 1h. */
  readonly backoff?: BackoffOption
  /** Named statements, planned once per connection. False behind PgBouncer in transaction mode. Default: true. */
  readonly prepare?: boolean
}

export interface Phases {
  /** Default: pending. */
  readonly ready: string
  /** Default: processing. */
  readonly claimed: string
  /** Default: completed. */
  readonly done: string
  /** Default: error. */
  readonly failed: string
}

export interface Names {
  readonly id: string
  /** Text or an enum. */
  readonly status: string
  readonly claim_token: string
  readonly claim_expires_at: string
  readonly attempt_count: string
  readonly last_error: string
  /** When a failed row is retried; null: never. */
  readonly retry_at: string
  /** When the row was last published. */
  readonly sent_at: string
}

const PHASES: Phases = { ready: 'pending', claimed: 'processing', done: 'completed', failed: 'error' }
const NAMES: Names = {
  id: 'id',
  status: 'status',
  claim_token: 'claim_token',
  claim_expires_at: 'claim_expires_at',
  attempt_count: 'attempt_count',
  last_error: 'last_error',
  retry_at: 'retry_at',
  sent_at: 'sent_at',
}
const KNOWN = ['arrows', 'columns', 'phases', 'names', 'stuckAfter', 'timeout', 'maxAttempts', 'backoff', 'prepare']

/** One statement, ready to send. */
export interface Sendable {
  readonly text: string
  readonly name?: string
}

export class Definition {
  readonly table: string
  readonly arrows: Arrows
  readonly columns: readonly string[]
  /** Every status that a row can have. */
  readonly statuses: readonly string[]
  readonly phases: Phases | undefined
  readonly names: Names
  readonly stuckAfterMs: number
  readonly timeoutMs: number
  readonly maxAttempts: number
  readonly backoff: { readonly firstMs: number; readonly maxMs: number }
  /** The replacements for the words in braces. */
  readonly words: Readonly<Record<string, string>>
  readonly #of: string
  readonly #prepare: boolean
  readonly #sendable = new Map<string, Sendable>()

  constructor(table: string, options: StatusTableOptions = {}) {
    const quoted = quoteTable('statusTable', table)
    this.table = table
    this.#of = `statusTable(${JSON.stringify(table)})`
    checkOptions(this.#of, options, KNOWN)
    checkOptions(`${this.#of}.phases`, options.phases || {}, Object.keys(PHASES))
    checkOptions(`${this.#of}.names`, options.names, Object.keys(NAMES))
    this.phases = options.phases === false ? undefined : { ...PHASES, ...options.phases }
    this.names = { ...NAMES, ...options.names }
    this.columns = options.columns ?? []
    const { ready, done } = this.phases ?? PHASES
    this.arrows = options.arrows ?? { [ready]: [done] }
    this.stuckAfterMs = durationMs(`${this.#of}.stuckAfter`, options.stuckAfter ?? '15m', 100)
    this.timeoutMs = durationMs(`${this.#of}.timeout`, options.timeout ?? '1h', 1)
    this.maxAttempts = checkInteger(`${this.#of}.maxAttempts`, options.maxAttempts ?? 5, 1, 32_767)
    this.backoff = checkBackoff(`${this.#of}.backoff`, options.backoff, { first: '30s', max: '1h' })
    this.#prepare = options.prepare ?? true
    this.words = {
      table: quoted,
      set: '',
      ...mapped({ ...this.names }, (name, word) => quoteName(`${this.#of}.names.${word}`, name)),
      ...mapped({ ...this.phases }, (status, phase) => this.#literal(`phases.${phase}`, status)),
    }
    this.#checkArrows()
    this.#checkColumns()
    const ofArrows = Object.entries(this.arrows).flatMap(([from, to]) => [from, ...to])
    this.statuses = [...new Set([...ofArrows, ...Object.values(this.phases ?? {})])]
  }

  checkArrow(from: string, to: string): void {
    if (Object.hasOwn(this.arrows, from) && this.arrows[from]!.includes(to)) return
    const known = Object.entries(this.arrows).flatMap(([one, others]) => others.map((other) => `${one} → ${other}`))
    throw new InvalidOptionError(this.#of, `there is no arrow ${from} → ${to}; there are ${known.join(', ')}`)
  }

  checkStatus(status: string): void {
    const { statuses } = this
    if (statuses.includes(status)) return
    throw new InvalidOptionError(this.#of, `there is no status ${status}; there are ${statuses.join(', ')}`)
  }

  /**
   * Whether a row in this status has yet to reach `from`: it can, by arrows and phases, and has not been there. An
   * undeclared status (misspelt, or newer than this program) counts as before, because it may not be past `from`.
   */
  isBefore(status: string, from: string): boolean {
    return !this.statuses.includes(status) || (this.#leadsTo(status, from) && !this.#leadsTo(from, status))
  }

  needPhases(): Phases {
    if (this.phases !== undefined) return this.phases
    throw new InvalidOptionError(`${this.#of}.phases`, 'phases: false declares none, so there is nothing to claim')
  }

  /** The statement for this table. Made once for each use, which `key` names. */
  statement(key: string, template: string, more: () => Readonly<Record<string, string>> = () => ({})): Sendable {
    let made = this.#sendable.get(key)
    if (made === undefined) {
      const text = renderNames(template, { ...this.words, ...more() })
      // Named by the hash of its text, so that two declarations of one table, or of tables in two schemas, never share a
      // name.
      const name = `leasehold/${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
      made = this.#prepare ? { text, name } : { text }
      this.#sendable.set(key, made)
    }
    return made
  }

  arrow(from: string, to: string): Readonly<Record<string, string>> {
    return { from: this.#literal('from', from), to: this.#literal('to', to) }
  }

  /** Quoted, if it was declared. */
  column(name: string): string {
    if (this.columns.includes(name)) return quoteName(`${this.#of}.columns`, name)
    const known = this.columns.length === 0 ? 'none is declared' : `declared are ${this.columns.join(', ')}`
    throw new InvalidOptionError(`${this.#of}.set.${name}`, `it is no column that a transition may set; ${known}`)
  }

  #leadsTo(start: string, end: string): boolean {
    const reached = new Set([start])
    for (const status of reached) for (const next of this.#nextOf(status)) reached.add(next)
    return reached.has(end)
  }

  #nextOf(status: string): readonly string[] {
    const byArrow = Object.hasOwn(this.arrows, status) ? this.arrows[status]! : []
    if (this.phases === undefined) return byArrow
    const { ready, claimed, done, failed } = this.phases
    const byPhase = new Map([
      [ready, [claimed, failed]],
      [claimed, [done, failed, ready]],
      [failed, [ready]],
    ])
    return [...byArrow, ...(byPhase.get(status) ?? [])]
  }

  #literal(option: string, status: string): string {
    // No character that could end a literal, and none that is invisible.
    if (typeof status === 'string' && /^[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,62}$/.test(status)) return `'${status}'`
    throw new InvalidOptionError(
      `${this.#of}.${option}`,
      `${JSON.stringify(status)} is not a status: 1 to 63 of A-Z, a-z, 0-9, _, space, period, colon and hyphen`,
    )
  }

  #checkArrows(): void {
    if (this.arrows === null || typeof this.arrows !== 'object' || Object.keys(this.arrows).length === 0) {
      throw new InvalidOptionError(`${this.#of}.arrows`, "it must be an object such as { pending: ['completed'] }")
    }
    for (const [from, targets] of Object.entries(this.arrows)) {
      if (!Array.isArray(targets))
        throw new InvalidOptionError(
          `${this.#of}.arrows.${from}`,
          "it must be a list of statuses such as ['completed']",
        )
      for (const status of [from, ...targets]) {
        this.#literal(`arrows.${from}`, status)
        if (status === this.phases?.claimed) {
          throw new InvalidOptionError(
            `${this.#of}.arrows.${from}`,
            `${status} is entered by claim() and left by commit(), which check the claim; leave it out`,
          )
        }
      }
    }
    const phases = Object.values(this.phases ?? {})
    if (new Set(phases).size !== phases.length) {
      throw new InvalidOptionError(`${this.#of}.phases`, 'two phases have the same status; give each its own')
    }
  }

  #checkColumns(): void {
    if (!Array.isArray(this.columns))
      throw new InvalidOptionError(`${this.#of}.columns`, "it must be a list of column names such as ['result']")
    const used = this.phases === undefined ? ['id', 'status'] : Object.keys(this.names)
    const ours = used.map((word) => this.words[word])
    if (new Set(ours).size !== ours.length)
      throw new InvalidOptionError(`${this.#of}.names`, 'two columns have the same name; give each its own')
    for (const column of this.columns) {
      const quoted = quoteName(`${this.#of}.columns`, column)
      if (ours.includes(quoted)) {
        throw new InvalidOptionError(
          `${this.#of}.columns`,
          `${column} is written by the transitions themselves; leave it out`,
        )
      }
    }
  }
}

function mapped(
  values: Readonly<Record<string, string>>,
  change: (value: string, word: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([word, value]) => [word, change(value, word)]))
}
