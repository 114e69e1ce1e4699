/** `keep: false`: a completed job leaves no row, so a handler's end is the only evidence of it. */
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

export const forgotten: Workload = {
  name: 'forgotten',
  share: 10,
  kinds: { forgotten: { keep: false, maxAttempts: 5, backoff: { first: '150ms', max: '800ms' } } },
  plan: (random) => ({ ms: durationFrom(random), fails: random() < 0.15 ? 1 : 0 }),
  forgets: true,
  handle: async (run) => {
    const { ms, fails } = run.input as unknown as { ms: number; fails: number }
    await run.rest(ms)
    if (run.attempt <= fails) throw new Error('on purpose')
  },
  ends: () => ['completed', 'attempts_exhausted', 'lease_expired'],
}
