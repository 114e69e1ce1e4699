/** Jobs that are not started in time, and become dead letters without a handler. Redriven, they run. */
import type { Workload } from '../workload.ts'

export const expiring: Workload = {
  name: 'expiring',
  share: 2,
  kinds: { expiring: {} },
  plan: () => ({}),
  options: () => ({ delay: '3s', expiresAt: new Date(Date.now() + 1_000) }),
  handle: async () => {},
  ends: () => ['expired', 'completed', 'lease_expired'],
  check: ({ rows, lines }, works) => {
    const onRecord = rows.actions.filter(({ action }) => action === 'redrive')
    // A failover may have undone a redrive, and the record of it, after the job ran.
    const answered = lines.filter(({ e }) => e === 'redrive')
    const redriven = new Set([...onRecord, ...answered].map(({ job }) => job))
    return [
      {
        promise: 'a job that has expired does not start',
        checked: works.length,
        broken: works
          .filter(({ runs }) => runs.some(({ job }) => !redriven.has(job)))
          .map(({ w }) => `${w}: it started, and was not redriven`),
      },
    ]
  },
}
