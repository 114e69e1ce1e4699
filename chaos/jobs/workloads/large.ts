/** Inputs of some 100 kB that must arrive unchanged. */
import { createHash } from 'node:crypto'
import { randomFrom } from '../../../tools/seeded-random.ts'
import type { Workload } from '../workload.ts'

const BYTES = 100_000

export const large: Workload = {
  name: 'large',
  share: 2,
  kinds: { large: { maxAttempts: 6, backoff: { first: '150ms', max: '800ms' } } },
  plan: (random) => ({ ms: Math.round(random() * 300), body: `${random()}` }),
  produce: async ({ input, enqueue, note }) => {
    const text = bodyOf(input.body as string)
    const { jobId, outcome } = await enqueue({ ...input, text, hash: hashOf(text) })
    note('acked', { job: jobId, outcome })
  },
  handle: async (run) => {
    const { input } = run
    await run.rest(input.ms as number)
    if (hashOf(String(input.text)) !== input.hash) run.note('wrong')
    return { length: String(input.text).length }
  },
  ends: () => ['completed', 'lease_expired'],
  check: (_, works) => [
    {
      promise: 'a large input arrives as it was sent',
      checked: works.filter(({ runs }) => runs.length > 0).length,
      broken: works.filter(({ lines }) => lines.some(({ e }) => e === 'wrong')).map(({ w }) => w),
    },
  ],
}

/** Text that hardly compresses. */
function bodyOf(seed: string): string {
  const random = randomFrom(seed)
  let text = ''
  while (text.length < BYTES) text += Math.floor(random() * 2 ** 52).toString(36)
  return text
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
