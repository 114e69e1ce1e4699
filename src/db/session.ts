/**
 * One connection of our own, for one purpose, opened on first use and again after it broke.
 *
 * Statements run one at a time, each under our own deadline: a half-open socket never replies. A statement that missed its
 * deadline may still be carried out, so the caller must be able to query its outcome (decisions/0009). Its connection is
 * destroyed, because the late reply would be taken for the next statement's.
 *
 * The server has its own limit, a little below ours (`statement_timeout`): a statement that waits for a lock ends there,
 * is certainly not carried out, and its connection stays usable. Poolers refuse or drop that setting, so a statement that
 * misses our deadline is cancelled as well (decisions/0028).
 */
import type { QueryArrayConfig } from 'pg'
import pg from 'pg'
import { DeadlineError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import { cancelAndDestroy, destroy } from './cancel.ts'
import type { Answer, Queryable } from './lane.ts'
import { type Columns, sendPrepared } from './statement.ts'

export interface SessionOptions {
  readonly connection: pg.ClientConfig
  /** For each statement, and for opening the connection. */
  readonly deadlineMs: number
  /** Called when the server or the network ends the connection. */
  readonly onLost?: (error: Error) => void
  readonly onNotification?: (channel: string, message: string) => void
}

export class Session implements Queryable {
  readonly #options: SessionOptions
  #client: pg.Client | undefined
  #columns: Columns = new Map()
  #connecting: ((error: Error) => void) | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false
  #abandoned = false

  constructor(options: SessionOptions) {
    this.#options = options
  }

  query(config: QueryArrayConfig): Promise<Answer> {
    const answer = this.#turn.then(() => this.#send(config))
    this.#turn = answer.catch(() => {})
    return answer
  }

  /** Ends the connection after the statements in flight. Later statements open it again. */
  async close(): Promise<void> {
    await this.#turn
    this.#closed = true
    const client = this.#client
    this.#client = undefined
    if (client === undefined) return
    await withDeadline(client.end(), 1_000, () => new DeadlineError('Closing a connection', 1_000)).catch(() => {
      destroy(client)
    })
  }

  /** At once: statements in flight reject, and so do all later ones. */
  abandon(): void {
    this.#abandoned = true
    if (this.#client !== undefined) this.#drop(this.#client)
    this.#connecting?.(new DeadlineError('Connecting', this.#options.deadlineMs))
  }

  async #send(config: QueryArrayConfig): Promise<Answer> {
    if (this.#abandoned) notCarriedOut(new DeadlineError('Waiting for the database', this.#options.deadlineMs))
    const client = this.#client ?? (await this.#connect().catch(notCarriedOut))
    const { deadlineMs, connection } = this.#options
    let late: DeadlineError | undefined
    const isLate = () => {
      late = new DeadlineError('A statement', deadlineMs)
      return late
    }
    const query =
      config.name === undefined ? client.query(config) : sendPrepared(client, config.name, config, this.#columns)
    try {
      return await withDeadline(query, deadlineMs, isLate)
    } catch (error) {
      if (error === late) {
        this.#forget(client)
        void cancelAndDestroy(client, query, connection.stream)
      } else if (!isUsableAfter(error)) this.#drop(client)
      if (isCancelled(error)) notCarriedOut(new DeadlineError('A statement', deadlineMs, { cause: error }))
      throw error
    }
  }

  /** Without a limit on the server if a pooler refuses one. */
  async #connect(): Promise<pg.Client> {
    const { connection, deadlineMs } = this.#options
    const limitMs = Math.max(1, Math.floor(deadlineMs * SERVER_LIMIT))
    if (WITHOUT_LIMIT.has(connection)) return this.#open(undefined)
    return this.#open(limitMs).catch((error) => {
      if (this.#abandoned || !refusesLimit(error)) throw error
      WITHOUT_LIMIT.add(connection)
      return this.#open(undefined)
    })
  }

  async #open(limitMs: number | undefined): Promise<pg.Client> {
    this.#closed = false
    const { connection, deadlineMs, onNotification } = this.#options
    const client = new pg.Client({
      keepAlive: true,
      ...connection,
      // One statement is sent at a time anyway, and the driver refuses our own in a pipeline.
      pipeline: false,
      // Not enumerable on the options of a pool, so a spread does not copy it.
      password: connection.password,
      connectionTimeoutMillis: Math.min(connection.connectionTimeoutMillis || deadlineMs, deadlineMs),
    } as pg.ClientConfig)
    if (limitMs !== undefined) limitStatements(client, limitMs)
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client, new Error('The connection was ended by the server.')))
    if (onNotification !== undefined) {
      client.on('notification', ({ channel, payload }) => onNotification(channel, payload ?? ''))
    }
    try {
      await new Promise<void>((resolve, reject) => {
        this.#connecting = reject
        client.connect().then(() => resolve(), reject)
      })
    } catch (error) {
      destroy(client)
      throw error
    } finally {
      this.#connecting = undefined
    }
    this.#client = client
    this.#columns = new Map()
    return client
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client) return
    this.#drop(client)
    if (!this.#closed) this.#options.onLost?.(error)
  }

  #drop(client: pg.Client): void {
    this.#forget(client)
    destroy(client)
  }

  #forget(client: pg.Client): void {
    if (this.#client === client) this.#client = undefined
  }
}

/** The server's limit, as a fraction of ours. */
const SERVER_LIMIT = 0.9

/** Connections whose pooler refuses `statement_timeout` at startup. */
const WITHOUT_LIMIT = new WeakSet<pg.ClientConfig>()

/** Keeps a lower limit of the user, and any limit among `options`. */
function limitStatements(client: pg.Client, ms: number): void {
  const { connectionParameters: parameters } = client as unknown as {
    connectionParameters: { statement_timeout?: unknown; options?: string }
  }
  if (parameters.options?.includes('statement_timeout')) return
  const asked = Number.parseInt(String(parameters.statement_timeout), 10)
  parameters.statement_timeout = asked > 0 ? Math.min(asked, ms) : ms
}

/** PgBouncer: "unsupported startup parameter: statement_timeout". Other poolers word it differently. */
function refusesLimit(error: unknown): boolean {
  return error instanceof Error && /statement_timeout|startup parameter/.test(error.message)
}

const NOT_CARRIED_OUT = new WeakSet<object>()

function notCarriedOut(error: unknown): never {
  if (typeof error === 'object' && error !== null) NOT_CARRIED_OUT.add(error)
  throw error
}

/** Whether the statement that failed with this error may have been carried out. */
export function maybeSent(error: unknown): boolean {
  return !(typeof error === 'object' && error !== null && NOT_CARRIED_OUT.has(error))
}

/** By the server's limit or by a cancel request. Postgres checks for neither once it has begun to commit. */
function isCancelled(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '57014'
}

/**
 * Whether the connection is usable after this error. It is after an ordinary refusal. It is not after a server that shuts
 * down (57P), one that became read-only because another was promoted (25006), a pooler that mixed up prepared statements
 * (26000, 42P05), a migration that changed the columns of a prepared statement (0A000), or any error that did not come from a server.
 */
function isUsableAfter(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false
  const code = error.code ?? ''
  return !/^(57P..|08...|25006|53300|26000|42P05|0A000)$/.test(code)
}
