/** Jobs that fail a few times, with delays and priorities; a few never succeed. */
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

const ATTEMPTS = 4

export const plain: Workload = {
  name: 'plain',
  share: 24,
  kinds: { plain: { maxAttempts: ATTEMPTS, backoff: { first: '150ms', max: '800ms' } } },
  plan: (random) => ({
    ms: durationFrom(random),
    fails: random() < 0.05 ? ATTEMPTS : random() < 0.25 ? 1 + Math.floor(random() * 2) : 0,
    priority: Math.floor(random() * 10),
    delayMs: random() < 0.2 ? Math.floor(random() * 1_500) : 0,
  }),
  options: ({ priority, delayMs }) => ({
    priority: priority as number,
    ...(delayMs === 0 ? {} : { delay: delayMs as number }),
  }),
  handle: async (run) => {
    const { ms, fails } = run.input as unknown as { ms: number; fails: number }
    await run.rest(ms)
    if (run.attempt <= fails) throw new Error('on purpose')
    return { w: run.input.w }
  },
  // After a crash attempts may be spent that did not fail, so few failures may be enough.
  ends: ({ script }) =>
    script.fails === 0 ? ['completed', 'lease_expired'] : ['completed', 'attempts_exhausted', 'lease_expired'],
}
