import type { Connection } from '../db/connection.ts'
import type { Worker } from '../worker/worker.ts'

/** The workers of this Leasehold that run in this process. The connection, which is below them, does not know their type. */
export function runningWorkers(connection: Connection): Worker[] {
  return [...connection.workers] as Worker[]
}

export function onEachWorker(connection: Connection, listener: (worker: Worker) => void): void {
  connection.workers.onEach((worker) => listener(worker as Worker))
}
