import type { Lane } from '../db/lane.ts'
import { CALL_FOR_HELP, CLEAR_BUSY, FLEET, LISTEN, MARK_BUSY, NOTIFY } from './wake.sql.ts'

/**
 * wake: a queue has work. help: more than one worker can take. cancel: a running job is to be cancelled. pause: a queue or kind
 * was paused. signal: one was sent to a run of a workflow.
 */
export const TOPICS = ['wake', 'help', 'cancel', 'pause', 'signal', 'ring'] as const
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

/** Every worker that serves one of these queues and has room should look. */
export async function callForHelp(lane: Lane, queues: readonly string[]): Promise<void> {
  await lane.run(CALL_FOR_HELP, [queues])
}

/** How many workers serve one of these queues, this one included. */
export async function fleetOf(lane: Lane, queues: readonly string[]): Promise<number> {
  const [row] = await lane.run<'workers'>(FLEET, [queues])
  return Number(row?.workers ?? 1)
}

export async function notify(lane: Lane, topic: Topic, message: string): Promise<void> {
  await lane.run(NOTIFY, [topic, message])
}

/** Subscribes the lane's own connection to every topic. */
export async function listen(lane: Lane): Promise<void> {
  await lane.run(LISTEN, [])
}
