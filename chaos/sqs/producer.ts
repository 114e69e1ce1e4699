/**
 * Sends the planned messages at the planned times, through the faults. Each message is sent until SQS has accepted it,
 * except the lost ones.
 */
import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { SqsPublisher } from '../../src/sqs/index.ts'
import { unless } from '../common/unless.ts'
import { bodyOf, type Plan, type PlannedMessage, WAYS, type Way } from './plan.ts'
import type { World } from './world.ts'

/** How long a message may be ahead of its row. */
const AHEAD_MS = 3_000

export class Producer {
  /** How often a publisher gave up, and was called again. */
  gaveUp = 0
  readonly #world: World
  readonly #planned: ReadonlyMap<number, PlannedMessage>
  readonly #publishers: Readonly<Record<Way, SqsPublisher>>
  /** The end of what was last sent to each group: the next one must not overtake it. */
  readonly #groups = new Map<string, Promise<void>>()

  constructor(world: World, plan: Plan) {
    this.#world = world
    this.#planned = new Map(plan.messages.map((message) => [message.id, message]))
    this.#publishers = Object.fromEntries(WAYS.map((way) => [way, this.#publisherFor(way)])) as Record<
      Way,
      SqsPublisher
    >
  }

  /** Resolves when SQS has all of them. */
  async run(startedAt: number, signal: AbortSignal): Promise<void> {
    const sending: Promise<void>[] = []
    for (const message of this.#planned.values()) {
      await unless(signal, startedAt + message.atMs - performance.now())
      if (signal.aborted) break
      sending.push(this.#inItsGroup(message, signal))
    }
    await Promise.all(sending)
  }

  #inItsGroup(message: PlannedMessage, signal: AbortSignal): Promise<void> {
    const { group } = message
    if (group === undefined) return this.#produce(message, signal)
    const sent = (this.#groups.get(group) ?? Promise.resolve()).then(() => this.#produce(message, signal))
    this.#groups.set(group, sent)
    return sent
  }

  async #produce(message: PlannedMessage, signal: AbortSignal): Promise<void> {
    const { way, id, poison, sent } = message
    const hasRow = (way === 'two phases' || way === 'one update') && poison === undefined
    const table = way === 'two phases' ? 'two_phases' : 'one_update'
    const insert = () => this.#world.pool.query(`insert into ${table} (id) values ($1)`, [id])
    if (hasRow && sent !== 'before its row') await insert()
    if (poison !== undefined) await this.#sendPoison(message)
    else if (sent !== 'lost') await this.#publish(way, String(id), signal)
    if (!hasRow || sent !== 'before its row') return
    await unless(signal, AHEAD_MS)
    await insert()
  }

  async #publish(way: Way, id: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        return await this.#publishers[way].publish([id])
      } catch {
        this.gaveUp++
      }
    }
  }

  /** Bypassing the proxy, so that there is one of each; and not by the publisher, which sends only JSON. */
  async #sendPoison(message: PlannedMessage): Promise<void> {
    const { way, id, group } = message
    const fifo = group === undefined ? {} : { MessageGroupId: group, MessageDeduplicationId: String(id) }
    const QueueUrl = this.#world.queues[way]
    await this.#world.sqs.client.send(new SendMessageCommand({ QueueUrl, MessageBody: bodyOf(message), ...fifo }))
  }

  #publisherFor(way: Way): SqsPublisher {
    const planned = (id: string) => this.#planned.get(Number(id))!
    return new SqsPublisher(this.#world.faulty.client, {
      queueUrl: this.#world.queues[way],
      body: (id) => JSON.parse(bodyOf(planned(id))),
      attempts: 2,
      ...(way === 'in order' ? { groupId: (id) => planned(id).group!, deduplicationId: (id) => id } : {}),
    })
  }
}
