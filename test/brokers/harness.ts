// Each transport with a broker behind it and a receiver in front of it, for the conformance suite.
import { randomUUID } from 'node:crypto'
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs'
import { eventOf, type ReceivedEvent } from '../../src/consumer/received-event.ts'
import { Fatal } from '../../src/index.ts'
import { askApi } from '../../src/nats/jetstream.ts'
import { NatsQueue } from '../../src/nats/queue.ts'
import { NatsTransport } from '../../src/nats/transport.ts'
import { inProcess } from '../../src/outbox/in-process.ts'
import type { OutgoingEvent, Transport } from '../../src/outbox/transport.ts'
import { SqsTransport } from '../../src/sqs/transport.ts'
import { connectTo, startNats } from '../../tools/nats.ts'
import { startSqs } from '../../tools/sqs.ts'
import { through as throughSqs } from '../sqs/scene.ts'
import type { Undo } from '../support/worker.ts'
import { createStream, through as throughNats } from './scene.ts'

export interface Opened {
  readonly transport: Transport
  /** The same, whose broker refuses events of this type, for now or for good, and no other. */
  refusing(type: string, forGood: boolean): Promise<Transport>
  /** The same, whose broker does what is asked, and whose reply is lost. */
  deaf(): Transport
  /** The same, whose broker stores an event, and acknowledges it, after this has resolved for its data. */
  holding(hold: (data: string) => Promise<void>): Transport
  /** All that a receiver gets, in order; at least this many. */
  received(atLeast: number): Promise<ReceivedEvent[]>
  /** Kills the broker. Returns how to start it again, with what it has stored; undefined: its store does not outlive it. */
  kill(): Promise<(() => Promise<void>) | undefined>
  /** What must never be shown. */
  readonly secret: string
}

export type Open = (undo: Undo) => Promise<Opened>

/** Without a broker: it cannot be killed, and the relay alone enforces the size. */
export const openInProcess: Open = async () => {
  const got: ReceivedEvent[] = []
  const receive = ({ attempt, ...event }: OutgoingEvent) => void got.push(event)
  return {
    secret: '',
    transport: inProcess(receive),
    refusing: async (type, forGood) =>
      inProcess((event) => {
        if (event.type === type) throw forGood ? new Fatal('never') : new Error('not now')
        receive(event)
      }),
    deaf: () =>
      inProcess((event) => {
        receive(event)
        throw new Error('after it was received')
      }),
    holding: (hold) =>
      inProcess(async (event) => {
        await hold(String(event.data))
        receive(event)
      }),
    received: async () => got.splice(0),
    kill: () => Promise.reject(new Error('there is no broker')),
  }
}

export const openSqs = (isFifo: boolean): Open => {
  return async (undo) => {
    const sqs = await startSqs()
    let isUp = true
    const stop = async () => {
      if (isUp) await sqs.stop()
      isUp = false
    }
    undo.after(stop)
    const secret = `secret-${randomUUID()}`
    const credentials = { accessKeyId: 'relay', secretAccessKey: secret }
    const client = new SQSClient({ ...sqs.config, credentials, maxAttempts: 1 })
    undo.after(() => client.destroy())
    const name = `q-${randomUUID()}`
    const queueUrl = await (isFifo
      ? sqs.createQueue(`${name}.fifo`, { ContentBasedDeduplication: 'false' })
      : sqs.createQueue(name))
    const receive = async (): Promise<ReceivedEvent[]> => {
      const asked = { QueueUrl: queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 0, VisibilityTimeout: 600 }
      const { Messages = [] } = await client.send(new ReceiveMessageCommand(asked))
      const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }))
      if (Entries.length > 0) await client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }))
      return Messages.map(({ Body }) => eventOf({ text: Body!, attributes: {} }))
    }
    const all: ReceivedEvent[] = []
    return {
      secret,
      transport: new SqsTransport(client, { queueUrl }),
      refusing: async (type, forGood) => {
        const code = forGood ? 'InvalidMessageContents' : 'InternalError'
        const refusing = throughSqs(client, async (_, __, command, signal) => {
          const { input } = command as unknown as { input: { Entries: { Id: string; MessageBody: string }[] } }
          const isIt = ({ MessageBody }: { MessageBody: string }) => JSON.parse(MessageBody).type === type
          const bad = input.Entries.filter(isIt)
          const Failed = bad.map(({ Id }) => ({ Id, Code: code, SenderFault: forGood }))
          const Entries = input.Entries.filter((entry) => !isIt(entry))
          if (Entries.length === 0) return { Failed }
          const Command = command.constructor as new (input: object) => never
          const answer = await client.send(new Command({ ...input, Entries }), { abortSignal: signal })
          return { ...(answer as object), Failed }
        })
        return new SqsTransport(refusing, { queueUrl })
      },
      deaf: () => {
        const deaf = throughSqs(client, async (_, send) => {
          await send()
          throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
        })
        return new SqsTransport(deaf, { queueUrl })
      },
      holding: (hold) => {
        const held = throughSqs(client, async (_, send, command) => {
          const { input } = command as unknown as { input: { Entries: { MessageBody: string }[] } }
          const events = input.Entries.map(({ MessageBody }) => eventOf({ text: MessageBody, attributes: {} }))
          await Promise.all(events.map(({ data }) => hold(String(data))))
          return send()
        })
        return new SqsTransport(held, { queueUrl })
      },
      received: async (atLeast) => {
        for (;;) {
          const some = await receive()
          all.push(...some)
          if (some.length === 0 && all.length >= atLeast) return all.splice(0)
        }
      },
      kill: async () => {
        await stop()
        return undefined
      },
    }
  }
}

export const openNats: Open = async (undo) => {
  const secret = `secret-${randomUUID()}`
  const login = { user: 'relay', pass: secret }
  const nats = await startNats({ login })
  undo.after(() => nats.stop())
  const connection = await connectTo(nats.urls, login)
  undo.after(() => connection.close())
  const stream = 'orders'
  await createStream(connection, { name: stream, subjects: ['orders.>'] })
  const options = { stream, consumer: 'c', filterSubject: undefined, visibilityMs: 600_000, inOrder: false }
  const queue = new NatsQueue(connection, { ...options, deadLetterSubject: undefined })
  const { signal } = new AbortController()
  const all: ReceivedEvent[] = []
  const subject = 'orders.all'
  return {
    secret,
    transport: new NatsTransport(connection, { subject, timeout: '500ms' }),
    refusing: async (type, forGood) => {
      if (forGood) {
        const narrow = { name: 'narrow', subjects: ['narrow'], max_msg_size: 1 }
        await createStream(connection, narrow)
      }
      const elsewhere = forGood ? 'narrow' : 'nowhere'
      return new NatsTransport(connection, { subject: (event) => (event.type === type ? elsewhere : subject) })
    },
    deaf: () => {
      const deaf = throughNats(connection, async (_, __, send) => {
        await send()
        return new Promise(() => {})
      })
      return new NatsTransport(deaf, { subject, timeout: '500ms' })
    },
    holding: (hold) => {
      const held = throughNats(connection, async (_, body, send) => {
        await hold(body)
        return send()
      })
      return new NatsTransport(held, { subject, timeout: '30s' })
    },
    received: async (atLeast) => {
      for (;;) {
        if (all.length >= atLeast) {
          type Info = { num_pending: number }
          const { num_pending: waiting } = await askApi<Info>(connection, 'CONSUMER.INFO.orders.c', undefined, 5_000)
          if (waiting === 0) return all.splice(0)
        }
        const some = await queue.receive(100, 0, signal)
        await queue.acknowledge(some.map(({ receipt }) => receipt))
        all.push(...some.map((delivery) => eventOf(delivery)))
      }
    },
    kill: async () => {
      const [server] = nats.servers
      await server!.kill()
      return () => server!.start()
    },
  }
}
