/** SQS (an emulator behind a proxy that can refuse connections) and a real nats-server. */
import type { SQSClientConfig } from '@aws-sdk/client-sqs'
import type { NatsConnection } from '@nats-io/transport-node'
import { askApi, JetStreamError } from '../../src/nats/jetstream.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { connectTo, type Nats, startNats } from '../../tools/nats.ts'
import { type SqsServer, startSqs } from '../../tools/sqs.ts'
import { STREAM } from './events.ts'

const ANSWER_MS = 5_000

export class Brokers {
  readonly queueUrl: string
  readonly natsUrls: string[]
  /** Through the proxy. */
  readonly sqs: SQSClientConfig
  readonly #server: SqsServer
  readonly #proxy: FaultyProxy
  readonly #nats: Nats
  readonly #connection: NatsConnection

  private constructor(server: SqsServer, queueUrl: string, proxy: FaultyProxy, nats: Nats, connection: NatsConnection) {
    this.queueUrl = queueUrl
    this.natsUrls = nats.urls
    this.sqs = { ...server.config, endpoint: `http://127.0.0.1:${proxy.port}` }
    this.#server = server
    this.#proxy = proxy
    this.#nats = nats
    this.#connection = connection
  }

  static async start(): Promise<Brokers> {
    const [server, nats] = await Promise.all([startSqs(), startNats()])
    const { hostname: host, port } = new URL(server.endpoint)
    const proxy = await startFaultyProxy({ host, port: Number(port) })
    const connection = await connectTo(nats.urls)
    const stream = { name: STREAM, subjects: [`${STREAM}.>`], retention: 'limits', storage: 'file', num_replicas: 1 }
    await askApi(connection, `STREAM.CREATE.${STREAM}`, stream, ANSWER_MS)
    return new Brokers(server, await server.createQueue('orders'), proxy, nats, connection)
  }

  /** nats-server dies by kill -9; SQS refuses all connections. */
  async goAway(): Promise<void> {
    this.#proxy.refuse()
    this.#proxy.cut()
    await this.#nats.servers[0]!.kill()
  }

  /** With all that they have acknowledged. */
  async comeBack(): Promise<void> {
    this.#proxy.accept()
    await this.#nats.servers[0]!.start()
  }

  /** Messages that no receiver has acknowledged yet. */
  async left(): Promise<number> {
    const [{ visible, inFlight }, { waiting, held }] = await Promise.all([
      this.#server.depth(this.queueUrl),
      this.streamLeft(),
    ])
    return visible + inFlight + waiting + held
  }

  async streamLeft(): Promise<{ waiting: number; held: number }> {
    type Info = { num_pending: number; num_ack_pending: number }
    const what = `CONSUMER.INFO.${STREAM}.shipping`
    const info = await askApi<Info>(this.#connection, what, undefined, ANSWER_MS).catch((error) => {
      // The server has just started, or does not have its consumer yet.
      if (error instanceof JetStreamError || /timeout|responders|closed/i.test(String(error))) return undefined
      throw error
    })
    return { waiting: info?.num_pending ?? 1, held: info?.num_ack_pending ?? 0 }
  }

  async stop(): Promise<void> {
    await this.#connection.close()
    await Promise.all([this.#proxy.stop(), this.#server.stop(), this.#nats.stop()])
  }
}
