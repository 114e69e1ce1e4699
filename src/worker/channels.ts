/**
 * The events of all workers of this process on channels of node:diagnostics_channel, for tools that cannot reach the worker. Nothing
 * is built for a channel without a subscriber.
 */
import { type Channel, channel } from 'node:diagnostics_channel'
import type { WorkerEvents } from './events.ts'

/** The channel of each event. A type error here: a new event has no channel. */
const NAMES: Readonly<Record<keyof WorkerEvents, string>> = {
  started: 'leasehold:job.started',
  completed: 'leasehold:job.completed',
  retrying: 'leasehold:job.retrying',
  dead_letter: 'leasehold:job.dead_letter',
  snoozed: 'leasehold:job.snoozed',
  cancelled: 'leasehold:job.cancelled',
  released: 'leasehold:job.released',
  concurrent_modification: 'leasehold:job.concurrent_modification',
  aborted: 'leasehold:job.aborted',
  refused: 'leasehold:job.refused',
  unknown: 'leasehold:job.unknown',
  recovered: 'leasehold:worker.recovered',
  key_waiting: 'leasehold:worker.key_waiting',
  unhandled_version: 'leasehold:worker.unhandled_version',
  gained: 'leasehold:worker.gained',
  lost: 'leasehold:worker.lost',
  unowned: 'leasehold:worker.unowned',
  worker_died: 'leasehold:worker.worker_died',
  wakeup: 'leasehold:worker.wakeup',
  chore: 'leasehold:worker.chore',
  problem: 'leasehold:worker.problem',
  stopping: 'leasehold:worker.stopping',
  stopped: 'leasehold:worker.stopped',
}

/** Held for the life of the process: Node forgets a channel that nothing refers to, and its subscribers with it. */
export const CHANNELS = Object.fromEntries(
  Object.entries(NAMES).map(([event, name]) => [event, channel(name)]),
) as Readonly<Record<keyof WorkerEvents, Channel>>

export const ENQUEUED = channel('leasehold:job.enqueued')
