import type { Lane } from '../db/lane.ts'
import { CLEAR_BUSY, LISTEN, MARK_BUSY, TELL } from './wake.sql.ts'

/** wake: a queue has work. cancel: a running job is to be cancelled. pause: a queue or kind was paused. */
export const TOPICS = ['wake', 'cancel', 'pause'] as const
export type Topic = (typeof TOPICS)[number]

/** The channel of a topic, as `leasehold.tell` names it. */
export function channelOf(schema: string, topic: Topic): string {
  return `${schema}.${topic}`
}

/** For this long an enqueue on these queues need not notify workers. */
export async function markBusy(lane: Lane, queues: readonly string[], forMs: number): Promise<void> {
  await lane.run(MARK_BUSY, [queues, forMs])
}

export async function clearBusy(lane: Lane, queues: readonly string[]): Promise<void> {
  await lane.run(CLEAR_BUSY, [queues])
}

export async function tell(lane: Lane, topic: Topic, message: string): Promise<void> {
  await lane.run(TELL, [topic, message])
}

/** Subscribes the lane's own connection to every topic. */
export async function listen(lane: Lane): Promise<void> {
  await lane.run(LISTEN, [])
}
