/** Many kinds, each in a queue of its own, with few jobs. Some queues and kinds are paused now and then. */
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

const QUEUES = 12
const names = Array.from({ length: QUEUES }, (_, index) => `many_${index}`)

export const manyQueues: Workload = {
  name: 'many queues',
  share: 10,
  kinds: Object.fromEntries(
    names.map((name, index) => [
      name,
      { queue: `queue_${index}`, maxAttempts: 5, backoff: { first: '150ms', max: '800ms' } },
    ]),
  ),
  kindOf: ({ kind }) => kind as string,
  plan: (random) => ({ kind: names[Math.floor(random() * QUEUES)]!, ms: durationFrom(random) }),
  handle: async (run) => {
    await run.rest(run.input.ms as number)
  },
  ends: () => ['completed', 'lease_expired'],
}
