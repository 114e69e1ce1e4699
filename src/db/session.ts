/**
 * One connection of our own, for one purpose, opened when it is first needed and again after it broke.
 *
 * Statements run one at a time, each under a deadline on our side: a half-open socket answers nothing, for ever. A
 * statement that missed its deadline may still be carried out, so the caller must be able to ask what became of it
 * (decisions/0009); its connection is thrown away, because the late answer would be taken for the next statement's.
 */
import type { QueryArrayConfig, QueryArrayResult } from 'pg'
import pg from 'pg'
import { DeadlineError } from '../core/errors.ts'
import { withDeadline } from '../core/timer.ts'
import type { Queryable } from './lane.ts'

export interface SessionOptions {
  readonly connection: pg.ClientConfig
  /** For each statement, and for opening the connection. */
  readonly deadlineMs: number
  /** Called when the connection ends by itself. */
  readonly onLost?: (error: Error) => void
  readonly onNotification?: (channel: string, message: string) => void
}

export class Session implements Queryable {
  readonly #options: SessionOptions
  #client: pg.Client | undefined
  #connecting: ((error: Error) => void) | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false
  #abandoned = false

  constructor(options: SessionOptions) {
    this.#options = options
  }

  query(config: QueryArrayConfig): Promise<QueryArrayResult> {
    const answer = this.#turn.then(() => this.#send(config))
    this.#turn = answer.catch(() => {})
    return answer
  }

  /** Ends the connection once the statements under way have ended. Later statements open it again. */
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

  /** At once, whatever is under way: it rejects, and so does everything later. */
  abandon(): void {
    this.#abandoned = true
    if (this.#client !== undefined) this.#drop(this.#client)
    this.#connecting?.(new DeadlineError('Connecting', this.#options.deadlineMs))
  }

  async #send(config: QueryArrayConfig): Promise<QueryArrayResult> {
    if (this.#abandoned) neverSent(new DeadlineError('Waiting for the database', this.#options.deadlineMs))
    const client = this.#client ?? (await this.#connect().catch(neverSent))
    const { deadlineMs } = this.#options
    try {
      return await withDeadline(client.query(config), deadlineMs, () => new DeadlineError('A statement', deadlineMs))
    } catch (error) {
      if (!isUsableAfter(error)) this.#drop(client)
      throw error
    }
  }

  async #connect(): Promise<pg.Client> {
    this.#closed = false
    const { connection, deadlineMs, onNotification } = this.#options
    const client = new pg.Client({
      keepAlive: true,
      ...connection,
      // Not enumerable on the options of a pool, so that it is not printed by accident.
      password: connection.password,
      connectionTimeoutMillis: Math.min(connection.connectionTimeoutMillis || deadlineMs, deadlineMs),
    } as pg.ClientConfig)
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
    return client
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client) return
    this.#drop(client)
    if (!this.#closed) this.#options.onLost?.(error)
  }

  #drop(client: pg.Client): void {
    if (this.#client === client) this.#client = undefined
    destroy(client)
  }
}

const UNSENT = new WeakSet<object>()

function neverSent(error: unknown): never {
  if (typeof error === 'object' && error !== null) UNSENT.add(error)
  throw error
}

/** Whether the statement that failed with this error may have reached a server. */
export function maybeSent(error: unknown): boolean {
  return !(typeof error === 'object' && error !== null && UNSENT.has(error))
}

/** Without a goodbye: nobody may be there to hear it. */
function destroy(client: pg.Client): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}

/**
 * After an ordinary refusal the connection is as good as before. Not after a server that shuts down (57P), one that became
 * read-only because another was promoted (25006), a pooler that mixed up prepared statements (26000, 42P05), or anything
 * that did not come from a server at all.
 */
export function isUsableAfter(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false
  const code = error.code ?? ''
  return !/^(57P..|08...|25006|53300|26000|42P05)$/.test(code)
}
