/** Handlers that throw Snooze, Cancel or Fatal, and some that claim to be long, so that an operator cancels them. */
import type { Workload } from '../workload.ts'

const MODES = ['snooze', 'cancel', 'fatal', 'slow', 'waits'] as const

export const steering: Workload = {
  name: 'steering',
  share: 12,
  kinds: { steering: { maxAttempts: 4, backoff: { first: '150ms', max: '800ms' } } },
  plan: (random) => ({ mode: MODES[Math.floor(random() * MODES.length)]!, ms: Math.round(random() * 60) }),
  options: ({ mode }) => (mode === 'waits' ? { delay: '4s' } : {}),
  handle: async (run) => {
    const { input, library, luck } = run
    await run.rest(input.mode === 'slow' ? 1_500 : (input.ms as number))
    if (input.mode === 'snooze' && luck < 0.6) throw new library.Snooze('300ms')
    if (input.mode === 'cancel') throw new library.Cancel('on purpose')
    // Redriven, it may do better.
    if (input.mode === 'fatal' && luck < 0.7) throw new library.Fatal('on purpose')
  },
  ends: ({ script }) => [
    ...(script.mode === 'cancel' ? ['cancelled'] : ['completed']),
    ...(script.mode === 'fatal' ? ['fatal'] : []),
    'lease_expired',
  ],
}
