/** The fleet: which workers run, how they are doing, and what happened to them. */
import { checkInteger } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import type { Lane, Row } from '../db/lane.ts'
import type { Vitals, WorkerMode } from '../jobs/registry.ts'
import {
  LIST_DEAD_WORKERS,
  LIST_FLEET_EVENTS,
  LIST_RUNNING_WORKERS,
  LIST_SEATS,
  LIST_STOPPED_WORKERS,
} from './workers.sql.ts'

/**
 * active: it beats. draining: it claims nothing more, and its handlers end. dead: it has missed three beats. stopped: it has noted
 * that it ended, or it claims by hand and has not for an hour.
 */
export const WORKER_STATES = ['active', 'draining', 'dead', 'stopped'] as const
export type WorkerState = (typeof WORKER_STATES)[number]

/** A worker process at the time of the query. Its vitals are those of its last beat. */
export interface WorkerSnapshot extends Vitals {
  readonly id: string
  readonly label: string
  /** Of this package. */
  readonly version: string
  readonly mode: WorkerMode
  readonly host: string | null
  readonly pid: number | null
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  readonly state: WorkerState
  /** On the ring. Null: none of its queues is on the ring, or it has no seat. */
  readonly seat: number | null
  readonly startedAt: Date
  readonly lastSeenAt: Date
  readonly drainingAt: Date | null
  /** When its death was noted. */
  readonly deadAt: Date | null
  readonly stoppedAt: Date | null
  /** Of its container. Null: there is none. */
  readonly memoryLimitBytes: number | null
}

export interface WorkersFilter {
  /** Default: all but stopped. */
  readonly state?: WorkerState
  /** Only workers that claim from this queue. */
  readonly queue?: string
  /** Default: 1,000, at most 10,000. */
  readonly limit?: number
}

/** Those that run, then the dead, then the stopped; of each, those seen last come first. */
export async function listWorkers(lane: Lane, filter: WorkersFilter = {}): Promise<WorkerSnapshot[]> {
  checkOptions('workers', filter, ['state', 'queue', 'limit'])
  const { state, queue = null } = filter
  if (state !== undefined && !WORKER_STATES.includes(state)) {
    throw new InvalidOptionError('workers.state', `it must be one of ${WORKER_STATES.join(', ')}`)
  }
  const limit = checkInteger('workers.limit', filter.limit ?? 1_000, 1, 10_000)
  const states = state === undefined ? WORKER_STATES.filter((one) => one !== 'stopped') : [state]
  // One that has missed three beats is dead, and one that claimed by hand long ago has stopped, before a worker notes it.
  const rows = [...(await lane.run<WorkerColumn>(LIST_RUNNING_WORKERS, [states, queue, limit]))]
  if (states.includes('dead')) rows.push(...(await lane.run<WorkerColumn>(LIST_DEAD_WORKERS, [queue, limit])))
  if (states.includes('stopped')) rows.push(...(await lane.run<WorkerColumn>(LIST_STOPPED_WORKERS, [queue, limit])))
  const seats = await lane.run<'worker_id' | 'number'>(LIST_SEATS, [])
  const seatOf = new Map(seats.map(({ worker_id, number }) => [worker_id, Number(number)]))
  return rows.slice(0, limit).map((row) => toWorker(row, seatOf.get(row.id) ?? null))
}

type WorkerColumn =
  | 'id'
  | 'label'
  | 'version'
  | 'mode'
  | 'host'
  | 'pid'
  | 'kinds'
  | 'queues'
  | 'state'
  | 'started_ms'
  | 'last_seen_ms'
  | 'draining_ms'
  | 'dead_ms'
  | 'stopped_ms'
  | 'held'
  | 'running'
  | 'event_loop_ms'
  | 'memory_bytes'
  | 'memory_limit_bytes'

function toWorker(row: Row<WorkerColumn>, seat: number | null): WorkerSnapshot {
  const number = (text: string | null) => (text === null ? null : Number(text))
  const date = (ms: string | null) => (ms === null ? null : new Date(Number(ms)))
  return {
    id: row.id!,
    label: row.label!,
    version: row.version!,
    mode: row.mode as WorkerMode,
    host: row.host,
    pid: number(row.pid),
    kinds: JSON.parse(row.kinds!),
    queues: JSON.parse(row.queues!),
    state: row.state as WorkerState,
    seat,
    startedAt: date(row.started_ms)!,
    lastSeenAt: date(row.last_seen_ms)!,
    drainingAt: date(row.draining_ms),
    deadAt: date(row.dead_ms),
    stoppedAt: date(row.stopped_ms),
    held: number(row.held),
    running: number(row.running),
    eventLoopMs: number(row.event_loop_ms),
    memoryBytes: number(row.memory_bytes),
    memoryLimitBytes: number(row.memory_limit_bytes),
  }
}

export interface FleetEvent {
  readonly id: string
  readonly at: Date
  /** What happened: joined, draining, left, died, returned … */
  readonly what: string
  readonly workerId: string | null
  readonly label: string | null
  readonly detail: Readonly<Record<string, unknown>> | null
}

export interface FleetEventsFilter {
  /** Only those of the worker with this id. */
  readonly workerId?: string
  /** Default: 100, at most 10,000. */
  readonly limit?: number
}

/** Newest first. */
export async function listFleetEvents(lane: Lane, filter: FleetEventsFilter = {}): Promise<FleetEvent[]> {
  checkOptions('fleetEvents', filter, ['workerId', 'limit'])
  const { workerId = null } = filter
  if (workerId !== null && !/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(workerId)) {
    throw new InvalidOptionError('fleetEvents.workerId', 'it must be the id of a worker, which is a UUID')
  }
  const limit = checkInteger('fleetEvents.limit', filter.limit ?? 100, 1, 10_000)
  type Column = 'id' | 'what' | 'worker_id' | 'label' | 'detail' | 'at_ms'
  const rows = await lane.run<Column>(LIST_FLEET_EVENTS, [workerId, limit])
  return rows.map((row) => ({
    id: row.id!,
    at: new Date(Number(row.at_ms)),
    what: row.what!,
    workerId: row.worker_id,
    label: row.label,
    detail: row.detail === null ? null : JSON.parse(row.detail),
  }))
}
