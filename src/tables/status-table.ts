/**
 * Transitions on a user's table, without any table of Leasehold: each is one UPDATE that names the status it leaves, so of
 * all concurrent callers one gets `applied` (decisions/0020).
 */
import { randomUUID } from 'node:crypto'
import { checkText } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { effectKeyOf } from '../core/effect-key.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Cells, Queryable } from '../db/lane.ts'
import { refuseTransaction } from '../db/tx.ts'
import type { Chore } from '../runtime/chore.ts'
import { type Arrows, Definition, type Phases, type Sendable, type StatusTableOptions } from './definition.ts'
import { type FailOptions, lastError, notBefore } from './failure.ts'
import type {
  Claimed,
  ClaimOutcome,
  FailRecorded,
  Instead,
  Looked,
  RowClaim,
  TransitionOutcome,
  Values,
} from './outcomes.ts'
import { type RecoveryOptions, recovery } from './recovery.ts'
import { CLAIM, COMMIT, FAIL, FAIL_CLAIM, FIND, FIND_CLAIM, RELEASE, RENEW, TRANSITION } from './row.sql.ts'
import { checkRowId, type RowId } from './row-id.ts'
import { change, read } from './send.ts'
import { whatItNeeds } from './table-ddl.ts'
import { type WorkClaim, type Worked, type WorkOptions, workOnRow } from './work.ts'

const ROUNDS = 10

/** A value for `set`: the time of the statement, by the database's clock. */
export const databaseNow: unique symbol = Symbol('databaseNow')

/** Declares a table of yours. Touches no database. */
export function statusTable<
  const A extends Arrows = { readonly pending: readonly ['completed'] },
  const Column extends string = never,
>(table: string, options: StatusTableOptions<A, Column> = {}): StatusTable<A, Column> {
  return new StatusTable(new Definition(table, options))
}

/** `db` is a pool, a client or your open transaction, here and below. */
export class StatusTable<A extends Arrows = Arrows, Column extends string = string> {
  readonly #definition: Definition

  constructor(definition: Definition) {
    this.#definition = definition
  }

  /**
   * One guarded UPDATE. `set` gives values to columns of yours; jsonb wants JSON text, databaseNow is the server's clock.
   */
  async transition<From extends keyof A & string>(
    db: Queryable,
    id: RowId,
    from: From,
    to: A[From][number],
    set: Values<Column> = {},
  ): Promise<TransitionOutcome> {
    const definition = this.#definition
    definition.checkArrow(from, to)
    const { list, values } = this.#assignments(set, 2)
    const statement = definition.statement(`${from}→${to}${list}`, TRANSITION, () => ({
      ...definition.arrow(from, to),
      set: list,
    }))
    return this.#apply(db, id, from, statement, [checkRowId(id), ...values], applied)
  }

  /** Throws if the arrow is not declared, so that a caller can check before it begins. */
  checkArrow<From extends keyof A & string>(from: From, to: A[From][number]): void {
    this.#definition.checkArrow(from, to)
  }

  /** The row's status; undefined: missing, or not committed yet. */
  async status(db: Queryable, id: RowId): Promise<string | undefined> {
    const [row] = await read(db, this.#definition.statement('find', FIND), [checkRowId(id)])
    return row?.[0] ?? undefined
  }

  /**
   * A look before work: the outcome a transition would have now, or that the row is ready. Only the transition is certain.
   */
  async look(db: Queryable, id: RowId, from: keyof A & string): Promise<Looked> {
    this.#definition.checkStatus(from)
    const status = await this.status(db, id)
    if (status === undefined) return { outcome: 'not_found' }
    return status === from ? { outcome: 'ready' } : this.#passedOver(status, from)
  }

  /**
   * First phase: you hold the row until you commit, fail or release it, or stop renewing for `stuckAfter`. After a lost
   * reply call it again with the same token to get the same claim; a token is for one claim.
   */
  async claim(db: Queryable, id: RowId, options: { readonly token?: string } = {}): Promise<Claimed> {
    checkOptions('claim', options, ['token'])
    const { ready, claimed } = this.#definition.needPhases()
    const { token = randomUUID() } = options
    const values = [checkRowId(id), checkText('claim.token', token, 200), this.#definition.stuckAfterMs]
    for (let round = 1; ; round++) {
      const [row] = await read(db, this.#definition.statement('claim', CLAIM), values)
      if (row !== undefined) return { outcome: 'applied', claim: { id: row[0]!, token } }
      const found = await this.#findClaim(db, { id, token })
      if (found === undefined) return { outcome: 'not_found' }
      if (found.isOurs && found.status === claimed) return { outcome: 'applied', claim: { id: found.id, token } }
      if (found.status !== ready) return this.#passedOver(found.status, ready)
      this.#checkRound(round, id, ready)
    }
  }

  /** Second phase: done, if you still hold the claim. Can be repeated after a lost reply. */
  async commit(db: Queryable, claim: RowClaim, set: Values<Column> = {}): Promise<ClaimOutcome> {
    const { done } = this.#definition.needPhases()
    const { list, values } = this.#assignments(set, 3)
    const statement = this.#definition.statement(`commit${list}`, COMMIT, () => ({ set: list }))
    return this.#end(db, claim, done, statement, [checkRowId(claim.id), claim.token, ...values], applied)
  }

  /**
   * The attempt has failed: the error is kept, the attempt counted, and recovery retries the row after the backoff, while
   * attempts are left and `retry` is not false; otherwise it is `givenUp`. With an id instead of a claim: a row that was
   * never claimed, in one-phase work.
   */
  fail(
    db: Queryable,
    claim: RowClaim,
    error: unknown,
    options?: FailOptions,
  ): Promise<FailRecorded | Instead<ClaimOutcome>>
  fail(
    db: Queryable,
    id: RowId,
    error: unknown,
    options?: FailOptions,
  ): Promise<FailRecorded | Instead<TransitionOutcome>>
  async fail(
    db: Queryable,
    which: RowClaim | RowId,
    error: unknown,
    options: FailOptions = {},
  ): Promise<FailRecorded | Instead<ClaimOutcome | TransitionOutcome>> {
    checkOptions('fail', options, ['retry', 'after'])
    const { ready, failed } = this.#definition.needPhases()
    const { maxAttempts } = this.#definition
    const backoff = options.after === undefined ? this.#definition.backoff : notBefore(options.after)
    const recorded = [lastError(error), options.retry === false ? 0 : maxAttempts, backoff.firstMs, backoff.maxMs]
    if (typeof which !== 'object') {
      const values = [checkRowId(which), ...recorded]
      return this.#apply(db, which, ready, this.#definition.statement('fail', FAIL), values, failRecorded)
    }
    const statement = this.#definition.statement('fail_claim', FAIL_CLAIM)
    return this.#end(db, which, failed, statement, [checkRowId(which.id), ...recorded, which.token], failRecorded)
  }

  /** Renews the claim: its time begins anew. */
  async renew(db: Queryable, claim: RowClaim): Promise<ClaimOutcome> {
    const { claimed } = this.#definition.needPhases()
    const values = [checkRowId(claim.id), claim.token, this.#definition.stuckAfterMs]
    return this.#end(db, claim, claimed, this.#definition.statement('renew', RENEW), values, applied)
  }

  /**
   * Released as if never claimed, no attempt spent: for a process that stops before its effect. `after`: the queue
   * redelivers the message then, so recovery does not re-publish the row before.
   */
  async release(db: Queryable, claim: RowClaim, options: { readonly after?: Duration } = {}): Promise<ClaimOutcome> {
    checkOptions('release', options, ['after'])
    const { ready } = this.#definition.needPhases()
    const values = [checkRowId(claim.id), claim.token, durationMs('release.after', options.after ?? 0)]
    return this.#end(db, claim, ready, this.#definition.statement('release', RELEASE), values, applied)
  }

  /**
   * Both phases around an effect: claims, runs it with no connection held, renews meanwhile, and commits the columns that it
   * returns. An error is recorded as a failure; Fatal and Cancel are not retried, RetryAfter not before its delay; Snooze
   * releases the row. `db` must be a pool: a transaction would stay open all the while.
   */
  async work(
    db: Queryable,
    id: RowId,
    effect: (claim: WorkClaim) => Promise<Values<Column> | null | undefined>,
    options: WorkOptions = {},
  ): Promise<Worked> {
    checkOptions('work', options, ['stopping'])
    refuseTransaction('work', db)
    const { stuckAfterMs, timeoutMs } = this.#definition
    return workOnRow(this, db, id, effect, { stuckAfterMs, timeoutMs, ...options })
  }

  /** The statuses of two-phase work, if declared. */
  get phases(): Phases | undefined {
    return this.#definition.phases
  }

  /**
   * The same for each attempt on a row: pass it to a provider as idempotency key, so that it acts once. Pass the claim,
   * whose id is spelt as the database does. If two deployments share a provider's account, or ids begin anew, put that into
   * `effect`: `prod:charge`.
   */
  effectKey(row: { readonly id: RowId }, effect: string): string {
    return effectKeyOf('row', this.#definition.table, String(checkRowId(row.id)), checkText('effect', effect, 200))
  }

  /** Reclaims stuck rows and retries failed ones: for a worker's `chores`, or a timer of your own. */
  recovery(options: RecoveryOptions = {}): Chore {
    this.#definition.needPhases()
    return recovery(this.#definition, options, (tx, id, error) => this.fail(tx, id, error))
  }

  /** The required columns, constraints and indexes, as SQL for your migration. */
  sql(): string {
    return whatItNeeds(this.#definition)
  }

  /** From a status that any caller can leave: the second caller learns the row's status. */
  async #apply<Applied extends { outcome: 'applied' }>(
    db: Queryable,
    id: RowId,
    from: string,
    update: Sendable,
    values: unknown[],
    answer: (row: Cells) => Applied,
  ): Promise<Applied | Instead<TransitionOutcome>> {
    for (let round = 1; ; round++) {
      const changed = await change(db, update, values)
      if (changed !== undefined) return answer(changed)
      const [row] = await read(db, this.#definition.statement('find', FIND), [id])
      if (row === undefined) return { outcome: 'not_found' }
      if (row[0] !== from) return this.#passedOver(row[0]!, from)
      // The row has come back in between, or has just been committed.
      this.#checkRound(round, id, from)
    }
  }

  /** The caller holds a message: it can be dropped if the row is past `from`, and not if the row has yet to reach it. */
  #passedOver(status: string, from: string): Exclude<TransitionOutcome, { outcome: 'applied' | 'not_found' }> {
    return { outcome: this.#definition.isBefore(status, from) ? 'not_ready' : 'already_handled', status }
  }

  /** `already_handled` would be false here, and the message would be dropped. */
  #checkRound(round: number, id: RowId, status: string): void {
    if (round < ROUNDS) return
    const what = `row ${id} is ${status}, and yet no update changes it; does a policy or a trigger forbid it?`
    throw new InvalidOptionError(`statusTable(${JSON.stringify(this.#definition.table)})`, what)
  }

  /** From a claim: only its holder, once or again. */
  async #end<Applied extends { outcome: 'applied' }>(
    db: Queryable,
    claim: RowClaim,
    to: string,
    update: Sendable,
    values: unknown[],
    answer: (row: Cells) => Applied,
  ): Promise<Applied | Instead<ClaimOutcome>> {
    const changed = await change(db, update, values)
    if (changed !== undefined) return answer(changed)
    const found = await this.#findClaim(db, claim)
    if (found === undefined) return { outcome: 'not_found' }
    return found.isOurs && found.status === to ? answer(found.more) : { outcome: 'lost', status: found.status }
  }

  async #findClaim(db: Queryable, { id, token }: RowClaim) {
    const [row] = await read(db, this.#definition.statement('find_claim', FIND_CLAIM), [id, token])
    if (row === undefined) return undefined
    const [status, isOurs, spelt, ...more] = row
    return { status: status!, isOurs: isOurs === 't', id: spelt!, more }
  }

  /** `, "result" = $2, "completed_at" = statement_timestamp()`, and the parameter values. */
  #assignments(set: Values<Column>, from: number): { list: string; values: unknown[] } {
    const values: unknown[] = []
    let list = ''
    for (const [column, value] of Object.entries(set)) {
      const quoted = this.#definition.column(column)
      if (value === undefined)
        throw new InvalidOptionError(`set.${column}`, 'it is undefined; pass null, or leave it out')
      if (value === databaseNow) list += `, ${quoted} = statement_timestamp()`
      else list += `, ${quoted} = $${from + values.push(value) - 1}`
    }
    return { list, values }
  }
}

function applied(): { outcome: 'applied' } {
  return { outcome: 'applied' }
}

function failRecorded([givenUp]: Cells): FailRecorded {
  return { outcome: 'applied', givenUp: givenUp === 't' }
}
