/** The durable consumer in JetStream: created if it is missing, and refused if it would lose or reorder messages. */
import { InvalidOptionError } from '../core/errors.ts'
import type { NatsConnection } from './client.ts'
import { askApi, JetStreamError, NO_CONSUMER, NO_STREAM } from './jetstream.ts'

const NS_PER_MS = 1_000_000
/** Of a consumer that is created. JetStream's own default is 1,000 over all processes. */
const MAX_ACK_PENDING = 10_000

export interface ConsumerConfig {
  readonly stream: string
  readonly consumer: string
  readonly filterSubject: string | undefined
  readonly visibilityMs: number
  readonly inOrder: boolean
}

/** Spelt as in JetStream. */
interface Found {
  readonly ack_policy: string
  readonly ack_wait?: number
  readonly backoff?: readonly number[]
  readonly deliver_subject?: string
  readonly filter_subject?: string
  readonly max_ack_pending?: number
  readonly max_deliver?: number
}

export async function makeReady(connection: NatsConnection, wanted: ConsumerConfig, withinMs: number): Promise<void> {
  const { stream, consumer } = wanted
  try {
    const info = `CONSUMER.INFO.${stream}.${consumer}`
    const { config } = await askApi<{ config: Found }>(connection, info, undefined, withinMs)
    compare(wanted, config)
  } catch (error) {
    const code = error instanceof JetStreamError ? error.code : undefined
    if (code === NO_STREAM) {
      const cause = { cause: error }
      throw new InvalidOptionError('NatsConsumer.stream', `there is no stream ${stream}; create it first`, cause)
    }
    if (code !== NO_CONSUMER) throw error
    await create(connection, wanted, withinMs)
  }
}

async function create(connection: NatsConnection, wanted: ConsumerConfig, withinMs: number): Promise<void> {
  const { stream, consumer, filterSubject, visibilityMs, inOrder } = wanted
  const config = {
    durable_name: consumer,
    ack_policy: 'explicit',
    ack_wait: visibilityMs * NS_PER_MS,
    deliver_policy: 'all',
    replay_policy: 'instant',
    max_deliver: -1,
    max_ack_pending: inOrder ? 1 : MAX_ACK_PENDING,
    ...(filterSubject === undefined ? {} : { filter_subject: filterSubject }),
  }
  const what = `CONSUMER.DURABLE.CREATE.${stream}.${consumer}`
  await askApi(connection, what, { stream_name: stream, config }, withinMs)
}

function compare({ consumer, filterSubject, visibilityMs, inOrder }: ConsumerConfig, found: Found): void {
  const refuse = (option: string, reason: string): never => {
    throw new InvalidOptionError(`NatsConsumer.${option}`, `the consumer ${consumer} exists, and ${reason}`)
  }
  if (found.deliver_subject !== undefined) refuse('consumer', 'it is a push consumer; a pull consumer is needed')
  if (found.ack_policy !== 'explicit') {
    refuse('consumer', `its ack_policy is ${found.ack_policy}; it must be explicit, or messages are lost in a crash`)
  }
  if ((found.max_deliver ?? -1) > 0) {
    refuse('consumer', `its max_deliver is ${found.max_deliver}, after which a message is lost; set it to -1`)
  }
  if ((found.backoff ?? []).length > 0) {
    refuse('consumer', 'it has a backoff of its own, which changes how long a message is ours; remove that')
  }
  const ackWaitMs = (found.ack_wait ?? 30_000 * NS_PER_MS) / NS_PER_MS
  if (ackWaitMs !== visibilityMs) {
    refuse('visibility', `its ack_wait is ${ackWaitMs} ms, not ${visibilityMs} ms; they must be equal`)
  }
  if (inOrder && found.max_ack_pending !== 1) {
    refuse('inOrder', `its max_ack_pending is ${found.max_ack_pending}; for order it must be 1`)
  }
  if (filterSubject !== undefined && filterSubject !== (found.filter_subject ?? '')) {
    refuse('filterSubject', `its filter_subject is ${JSON.stringify(found.filter_subject ?? '')}`)
  }
}
