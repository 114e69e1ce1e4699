import type { Lane } from '../db/lane.ts'
import type { Worker } from '../jobs/job.ts'
import { noteDeaths } from '../jobs/registry.ts'
import type { Events } from './events.ts'

/** Notes workers that have missed three beats, and announces each of them. One worker of all does. */
export async function announceDeaths(lane: Lane, self: Worker, events: Events): Promise<void> {
  for (const dead of await noteDeaths(lane, self)) {
    events.emit('worker_died', dead)
    const { label, silentMs, held } = dead
    const jobs =
      held === null || held === 0 ? '' : `; it held ${held} jobs, which are reclaimed when their leases expire`
    events.log({
      level: 'warn',
      message: `worker ${label} died: last seen ${Math.round(silentMs / 1_000)} s ago${jobs}`,
    })
  }
}
