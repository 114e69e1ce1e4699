/** What a table of the user's is like: its names, its statuses, its arrows. Checked once, when it is declared. */
import { createHash } from 'node:crypto'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { quoteName, quoteTable, renderNames } from '../db/identifier.ts'

/** From each status, the statuses that a row may go to next. */
export type Arrows = Readonly<Record<string, readonly string[]>>

export interface StatusTableOptions<A extends Arrows = Arrows, Column extends string = string> {
  /** Default: id. */
  readonly id?: string
  /** Text or an enum. Default: status. */
  readonly status?: string
  /** Transitions of one step. Default: from ready to done, pending → completed. */
  readonly arrows?: A
  /** Columns of yours that a transition may set. Default: none. */
  readonly columns?: readonly Column[]
  /** The statuses of work in two phases: claim, then commit. False: there is none. Default: pending, processing, … */
  readonly phases?: Partial<Phases> | false
  /** The columns that two phases need, where yours are called otherwise. sql() prints them. */
  readonly names?: Partial<Names>
  /** A holder that is not heard of for this long has lost its claim. Default: 15m. */
  readonly stuckAfter?: Duration
  /** An effect that takes longer is aborted, and its claim renewed no more. Default: 1h. */
  readonly timeout?: Duration
  /** Failed and lost attempts until a row stays in error. Default: 5. */
  readonly maxAttempts?: number
  /** The wait after a failure: doubles from `first` up to `max`, a quarter of it random. Default: 30s, 1h. */
  readonly backoff?: { readonly first?: Duration; readonly max?: Duration }
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
  readonly claim_token: string
  readonly claim_expires_at: string
  readonly attempt_count: string
  readonly last_error: string
  /** When a failed row is to be tried again; null: never. */
  readonly retry_at: string
  /** When somebody was last told of the row. */
  readonly sent_at: string
}

const PHASES: Phases = { ready: 'pending', claimed: 'processing', done: 'completed', failed: 'error' }
const NAMES: Names = {
  claim_token: 'claim_token',
  claim_expires_at: 'claim_expires_at',
  attempt_count: 'attempt_count',
  last_error: 'last_error',
  retry_at: 'retry_at',
  sent_at: 'sent_at',
}
const KNOWN = [
  'id',
  'status',
  'arrows',
  'columns',
  'phases',
  'names',
  'stuckAfter',
  'timeout',
  'maxAttempts',
  'backoff',
  'prepare',
]

/** One statement as it is sent. */
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
  /** What stands for the words in braces. */
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
    checkOptions(`${this.#of}.backoff`, options.backoff, ['first', 'max'])
    this.phases = options.phases === false ? undefined : { ...PHASES, ...options.phases }
    this.names = { ...NAMES, ...options.names }
    this.columns = options.columns ?? []
    const { ready, done } = this.phases ?? PHASES
    this.arrows = options.arrows ?? { [ready]: [done] }
    this.stuckAfterMs = durationMs(`${this.#of}.stuckAfter`, options.stuckAfter ?? '15m', 100)
    this.timeoutMs = durationMs(`${this.#of}.timeout`, options.timeout ?? '1h', 1)
    this.maxAttempts = checkInteger(`${this.#of}.maxAttempts`, options.maxAttempts ?? 5, 1, 32_767)
    this.backoff = {
      firstMs: durationMs(`${this.#of}.backoff.first`, options.backoff?.first ?? '30s'),
      maxMs: durationMs(`${this.#of}.backoff.max`, options.backoff?.max ?? '1h'),
    }
    this.#prepare = options.prepare ?? true
    this.words = {
      table: quoted,
      id: quoteName(`${this.#of}.id`, options.id ?? 'id'),
      status: quoteName(`${this.#of}.status`, options.status ?? 'status'),
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
   * Whether a row of this status has yet to come to `from`: it may, by arrows and phases, and has not been there. Of a status
   * that is not declared (misspelt, or newer than this program) nobody can say that it is past it.
   */
  isBefore(status: string, from: string): boolean {
    return !this.statuses.includes(status) || (this.#leadsTo(status, from) && !this.#leadsTo(from, status))
  }

  needPhases(): Phases {
    if (this.phases !== undefined) return this.phases
    throw new InvalidOptionError(`${this.#of}.phases`, 'they are false, so there is nothing to claim')
  }

  /** The statement for this table. Made once for each use, which `key` names. */
  statement(key: string, template: string, more: () => Readonly<Record<string, string>> = () => ({})): Sendable {
    let made = this.#sendable.get(key)
    if (made === undefined) {
      const text = renderNames(template, { ...this.words, ...more() })
      // By its text, so that two declarations of one table, or of its namesake in another schema, cannot meet.
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
    // Nothing that could end a literal, and nothing that could not be seen.
    if (typeof status === 'string' && /^[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,62}$/.test(status)) return `'${status}'`
    throw new InvalidOptionError(
      `${this.#of}.${option}`,
      `${JSON.stringify(status)} is not a status: 1 to 63 of A-Z, a-z, 0-9, _, space, period, colon and hyphen`,
    )
  }

  #checkArrows(): void {
    if (this.arrows === null || typeof this.arrows !== 'object' || Object.keys(this.arrows).length === 0) {
      throw new InvalidOptionError(`${this.#of}.arrows`, "they must be such as { pending: ['completed'] }")
    }
    for (const [from, targets] of Object.entries(this.arrows)) {
      if (!Array.isArray(targets)) throw new InvalidOptionError(`${this.#of}.arrows.${from}`, 'it must be a list')
      for (const status of [from, ...targets]) {
        this.#literal(`arrows.${from}`, status)
        if (status === this.phases?.claimed) {
          throw new InvalidOptionError(
            `${this.#of}.arrows.${from}`,
            `${status} is entered by claim() and left by commit(), which know whose it is`,
          )
        }
      }
    }
    const phases = Object.values(this.phases ?? {})
    if (new Set(phases).size !== phases.length) {
      throw new InvalidOptionError(`${this.#of}.phases`, 'two of them are the same')
    }
  }

  #checkColumns(): void {
    if (!Array.isArray(this.columns))
      throw new InvalidOptionError(`${this.#of}.columns`, 'they must be a list of names')
    const ofPhases = this.phases === undefined ? [] : Object.keys(this.names)
    const ours = ['id', 'status', ...ofPhases].map((word) => this.words[word])
    if (new Set(ours).size !== ours.length)
      throw new InvalidOptionError(`${this.#of}.names`, 'two of them are the same')
    for (const column of this.columns) {
      const quoted = quoteName(`${this.#of}.columns`, column)
      if (ours.includes(quoted)) {
        throw new InvalidOptionError(`${this.#of}.columns`, `${column} is written by the transitions themselves`)
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
