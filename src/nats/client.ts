/** The client of NATS: an optional peer, loaded when it is first needed. Nothing else here imports it. */
import type * as Client from '@nats-io/transport-node'
import { InvalidOptionError } from '../core/errors.ts'

export type { Msg, MsgHdrs, NatsConnection } from '@nats-io/transport-node'
export type NatsClient = Pick<typeof Client, 'createInbox' | 'headers' | 'MsgHdrsImpl'>

export const PACKAGE = '@nats-io/transport-node'

let loaded: Promise<NatsClient> | undefined

/** `load` is for tests. */
export function natsClient(
  load: () => Promise<NatsClient> = () => import('@nats-io/transport-node'),
): Promise<NatsClient> {
  loaded ??= load().catch((error) => {
    loaded = undefined
    throw isMissing(error) ? notInstalled(error) : error
  })
  return loaded
}

/** By its methods: a program may hold two copies of the client. */
export function checkConnection(option: string, connection: Client.NatsConnection): Client.NatsConnection {
  if (typeof connection?.request === 'function' && typeof connection.subscribe === 'function') return connection
  throw new InvalidOptionError(option, `it must be a connection: await connect({ … }) of ${PACKAGE}`)
}

function notInstalled(cause: unknown): InvalidOptionError {
  return new InvalidOptionError('leasehold/nats', `its client is not installed; run: npm install ${PACKAGE}`, { cause })
}

function isMissing(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  return code === 'ERR_MODULE_NOT_FOUND' && String(message).includes(PACKAGE)
}
