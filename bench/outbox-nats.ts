/** JetStream in the benchmark of the outbox: a transport that shows when it begins, and a publisher without a relay. */
import { headers, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { NatsTransport } from '../src/nats/index.ts'
import { askApi } from '../src/nats/jetstream.ts'
import type { Transport } from '../src/outbox/index.ts'

/** As many as the relay has by default: batches at a time, and events in each. */
const BATCHES = 4
const BATCH = 500
const ANSWER_MS = 10_000
const SUBJECT = 'bench.events'

export async function emptyStream(connection: NatsConnection): Promise<void> {
  await askApi(connection, 'STREAM.DELETE.BENCH', {}, ANSWER_MS).catch(() => {})
  const config = { name: 'BENCH', subjects: [SUBJECT], storage: 'file', num_replicas: 1, retention: 'limits' }
  await askApi(connection, 'STREAM.CREATE.BENCH', config, ANSWER_MS)
}

/** Calls `start` when the first batch is sent, and again with each other. */
export function natsTransport(connection: NatsConnection, start: () => void): Transport {
  const made = new NatsTransport(connection, { subject: SUBJECT })
  const send = made.send.bind(made)
  made.send = (...batch) => {
    start()
    return send(...batch)
  }
  return made
}

/** A request, as the client's package for JetStream publishes. */
async function stored(connection: NatsConnection, data: Uint8Array, head: MsgHdrs): Promise<void> {
  const { stream } = (await connection.request(SUBJECT, data, { timeout: ANSWER_MS, headers: head })).json<Receipt>()
  if (stream !== 'BENCH') throw new Error('not stored')
}

interface Receipt {
  readonly stream: string
}

/** The same bytes and ids, in as many batches at a time as the relay has, each when the one before is acknowledged. Events/s. */
export async function publishBare(connection: NatsConnection, data: Uint8Array, events: number): Promise<number> {
  let next = 0
  const from = performance.now()
  const publishers = Array.from({ length: BATCHES }, async () => {
    while (next < events) {
      const batch = Array.from({ length: Math.min(BATCH, events - next) }, () => next++)
      await Promise.all(
        batch.map((n) => {
          const head = headers()
          head.set('Nats-Msg-Id', String(n))
          return stored(connection, data, head)
        }),
      )
    }
  })
  await Promise.all(publishers)
  return (events * 1_000) / (performance.now() - from)
}
