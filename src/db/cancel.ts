/**
 * Ends a statement that missed its deadline. A backend that waits for a lock does not notice that its client has gone, so
 * each abandoned statement would leave a backend behind, until the server has no room for any client.
 *
 * The cancel request names the connection, not the statement, so it is sent before the socket is closed: PgBouncer passes it
 * on only while the client is there. The connection is never used again, so a late request cannot hit another statement.
 *
 * The server closes the request's socket. PgBouncer 1.18 to 1.20 may crash when a client leaves before its request has been
 * passed on (decisions/0028).
 */
import pg from 'pg'
import { DeadlineError } from '../core/errors.ts'
import { Alarm, monotonicMs, withDeadline } from '../core/timer.ts'

/** For the request, and for the statement to end. An unreachable server gets no longer. */
const CANCEL_MS = 1_000
/** A server that has not closed the request's socket by then is unreachable. */
const LEAVE_OPEN_MS = 60_000

/** Members that pg does not declare, or declares as private. */
interface Internals {
  readonly processID: number | null
  readonly secretKey: number | null
  readonly host: string
  readonly port: number
  readonly ssl: unknown
  readonly sslNegotiation: string
  readonly connection: { readonly stream: { destroy(): void } }
}

interface RequestConnection {
  readonly stream: { destroy(): void; unref?(): void }
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
  on(event: 'connect' | 'sslconnect' | 'end' | 'error', listener: (error?: Error) => void): void
}

/** Cancels the client's current statement, waits briefly for it to end, and closes the socket. Never rejects. */
export async function cancelAndDestroy(
  client: pg.ClientBase,
  statement: Promise<unknown>,
  stream?: pg.ClientConfig['stream'],
  withinMs = CANCEL_MS,
): Promise<void> {
  const { request, done } = cancelRequest(client as unknown as Internals, stream)
  const ended = statement.then(
    () => {},
    () => {},
  )
  const late = () => new DeadlineError('Cancelling a statement', withinMs)
  await withDeadline(Promise.all([done, ended]), withinMs, late).catch(() => {})
  if (request !== undefined) closeInTheEnd(request, done)
  destroy(client)
}

function closeInTheEnd(request: RequestConnection, done: Promise<void>): void {
  const alarm = new Alarm(() => request.stream.destroy())
  alarm.set(monotonicMs() + LEAVE_OPEN_MS)
  void done.then(() => {
    alarm.set(Number.POSITIVE_INFINITY)
    request.stream.destroy()
  })
}

/** Without a Terminate message: the server may be unreachable. */
export function destroy(client: pg.ClientBase): void {
  ;(client as unknown as Internals).connection.stream.destroy()
}

function cancelRequest(
  client: Internals,
  stream: pg.ClientConfig['stream'],
): { request?: RequestConnection; done: Promise<void> } {
  const { processID, secretKey, host, port, ssl, sslNegotiation } = client
  // A socket given by the user, instead of a function that makes one, is the one in use.
  const cannotConnect = stream !== undefined && typeof stream !== 'function'
  if (processID === null || secretKey === null || cannotConnect) return { done: Promise.resolve() }
  const config = { ssl, sslNegotiation, stream } as unknown as pg.ConnectionConfig
  const request = new pg.Connection(config) as unknown as RequestConnection
  const done = new Promise<void>((resolve) => {
    // The server closes the connection when it has read the request.
    request.on('end', () => resolve())
    request.on('error', () => resolve())
  })
  request.on('connect', () => {
    request.stream.unref?.()
    if (!ssl) request.cancel(processID, secretKey)
    else if (sslNegotiation !== 'direct') request.requestSsl()
  })
  request.on('sslconnect', () => request.cancel(processID, secretKey))
  if (host.startsWith('/')) request.connect(`${host}/.s.PGSQL.${port}`)
  else request.connect(port, host)
  return { request, done }
}
