// A database, a nats-server with a stream, and consumers that are stopped with their test.
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import { headers, type MsgHdrs, type NatsConnection, type PublishOptions } from '@nats-io/transport-node'
import type { ConsumerEvents } from '../../src/consumer/events.ts'
import { NatsConsumer, type NatsConsumerOptions } from '../../src/nats/index.ts'
import { askApi } from '../../src/nats/jetstream.ts'
import { connectTo, type Nats, startNats } from '../../tools/nats.ts'
import { until } from '../support/until.ts'
import { inTime, type Scene, scene } from '../support/worker.ts'

const ANSWER_MS = 10_000

export interface NatsScene extends Scene {
  /** Undefined if `NATS_URL` names a server that runs. */
  readonly nats: Nats | undefined
  readonly connection: NatsConnection
  /** The stream's name. Its subjects are `name.>`. */
  readonly stream: string
  connect(options?: Parameters<typeof connectTo>[1]): Promise<NatsConnection>
  send(subject: string, body: unknown, more?: Readonly<Record<string, string>>): Promise<void>
  /** A consumer named `c` that runs from now on. */
  consumer<Body>(options: Partial<NatsConsumerOptions<Body>>, connection?: NatsConnection): NatsConsumer<Body>
  /** Messages not delivered yet, and those delivered and not acknowledged. */
  left(): Promise<{ waiting: number; held: number }>
}

/** `own`: a server that the test may kill. */
export async function natsScene(
  t: TestContext,
  { size = 1, own = false }: { size?: number; own?: boolean } = {},
): Promise<NatsScene> {
  const base = await scene(t)
  const { NATS_URL: existing } = process.env
  const nats = existing && !own ? undefined : await startNats({ size })
  if (nats !== undefined) base.undo.after(() => nats.stop())
  const connect = async (options = {}) => {
    const connection = await connectTo(nats?.urls ?? [existing!], options)
    base.undo.after(() => connection.close())
    return connection
  }
  const connection = await connect()
  const stream = `s${randomUUID()}`
  await createStream(connection, { name: stream, subjects: [`${stream}.>`], num_replicas: size })
  base.undo.after(() => askApi(connection, `STREAM.DELETE.${stream}`, undefined, ANSWER_MS).catch(() => {}))
  return {
    ...base,
    nats,
    connection,
    stream,
    connect,
    send: async (subject, body, more = {}) => {
      const head = headers()
      for (const [name, value] of Object.entries(more)) head.set(name, value)
      const data = typeof body === 'string' ? body : JSON.stringify(body)
      await connection.request(`${stream}.${subject}`, data, { timeout: ANSWER_MS, headers: head })
    },
    consumer: (options, through = connection) => {
      const made = new NatsConsumer(through, {
        stream,
        consumer: 'c',
        signals: [],
        log: (entry) => base.log.push(entry),
        ...options,
      } as NatsConsumerOptions<never>)
      const running = made.run()
      running.catch(() => {}) // Reported below, unless the test has seen it.
      base.undo.after(() => made.stop({ grace: 0 }).catch(() => {}))
      return made as NatsConsumer<never>
    },
    left: async () => {
      type Info = { num_pending: number; num_ack_pending: number }
      const info = await askApi<Info>(connection, `CONSUMER.INFO.${stream}.c`, undefined, ANSWER_MS)
      return { waiting: info.num_pending, held: info.num_ack_pending }
    },
  }
}

interface StreamConfig {
  readonly name: string
  readonly subjects: readonly string[]
  readonly num_replicas?: number
}

/** Servers of a cluster may still be electing their leader: asked until one answers. */
export async function createStream(connection: NatsConnection, config: StreamConfig): Promise<void> {
  const whole = { retention: 'limits', storage: 'file', discard: 'old', max_age: 0, duplicate_window: 120e9, ...config }
  await until('the stream is there', async () => {
    const made = askApi(connection, `STREAM.CREATE.${config.name}`, whole, 2_000)
    return made.then(
      () => true,
      () => false,
    )
  })
}

type EventOf<Name extends keyof ConsumerEvents> = NonNullable<ConsumerEvents[Name][0]>

/** The next `count` events of this name. Call it before you cause them. */
export function nextEvents<Name extends keyof ConsumerEvents, Body>(
  consumer: NatsConsumer<Body>,
  name: Name,
  count: number,
): Promise<EventOf<Name>[]> {
  const events: EventOf<Name>[] = []
  const answer = new Promise<EventOf<Name>[]>((resolve) => {
    consumer.on(name, (...[event]: ConsumerEvents[Name]) => {
      events.push(event as EventOf<Name>)
      if (events.length === count) resolve(events)
    })
  })
  return inTime(answer, `not ${count} times "${name}"`)
}

export async function next<Name extends keyof ConsumerEvents, Body>(
  consumer: NatsConsumer<Body>,
  name: Name,
): Promise<EventOf<Name>> {
  return (await nextEvents(consumer, name, 1))[0]!
}

type Sent = { readonly data: Uint8Array; readonly headers?: MsgHdrs }

/**
 * The same connection, with a function that decides about each request: a receipt or a subject, and its body. A message that is
 * published for an acknowledgement is one, too: it gets what the function returns as its reply, or a refusal if that throws.
 */
export function through(
  connection: NatsConnection,
  decide: (subject: string, body: string, send: () => Promise<unknown>) => Promise<unknown>,
): NatsConnection {
  const request = (subject: string, body: Uint8Array, options: never) =>
    decide(subject, String(body), () => connection.request(subject, body, options))
  const publish = (subject: string, body: Uint8Array, options: PublishOptions = {}) => {
    const { reply, headers: head } = options
    if (reply === undefined || subject.startsWith('$JS')) return connection.publish(subject, body, options)
    const asked = { timeout: ANSWER_MS, ...(head === undefined ? {} : { headers: head }) }
    request(subject, body, asked as never).then(
      (answer) => connection.publish(reply, (answer as Sent).data, withHeaders(answer as Sent)),
      ({ message }) => connection.publish(reply, JSON.stringify({ error: { code: 503, description: message } })),
    )
  }
  return new Proxy(connection, {
    get(target, name) {
      if (name === 'request') return request
      if (name === 'publish') return publish
      const value = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function withHeaders({ headers: head }: Sent): PublishOptions {
  return head === undefined ? {} : { headers: head }
}
