/** Jobs with an idempotency key: enqueued until there is a reply, some of them twice, some also with another input. */
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

export const keyed: Workload = {
  name: 'keyed',
  share: 12,
  kinds: { keyed: { maxAttempts: 4, backoff: { first: '150ms', max: '800ms' } } },
  plan: (random) => ({
    ms: durationFrom(random),
    fails: random() < 0.2 ? 1 : 0,
    again: random() < 0.4,
    differs: random() < 0.2,
  }),
  repeats: true,
  options: ({ w }) => ({ idempotencyKey: w.replace('!', '') }),
  produce: async ({ input, enqueue, note }) => {
    const { jobId, outcome } = await enqueue(input)
    // The same key and the same input: a conflict would be wrong.
    note(outcome === 'conflict' ? 'wrong' : 'acked', { job: jobId, outcome })
    if (input.again) {
      const { jobId: same, outcome } = await enqueue(input)
      note('asked again', { job: same, outcome, isSame: same === jobId })
    }
    if (input.differs) {
      const { outcome } = await enqueue({ ...input, differs: 'yes' })
      note('asked with another input', { outcome })
    }
  },
  handle: async (run) => {
    const { ms, fails } = run.input as unknown as { ms: number; fails: number }
    await run.rest(ms)
    if (run.attempt <= fails) throw new Error('on purpose')
  },
  ends: () => ['completed', 'attempts_exhausted', 'lease_expired'],
  check: (history, works) => {
    const answers = works.flatMap((work) => work.lines.map((line) => ({ line, work })))
    const inTail = (from: number, to: number) => history.tails.some((tail) => tail.from <= to && from <= tail.to)
    const broken = answers.filter(({ line, work }) => {
      const { e, outcome, isSame } = line
      // Between the two replies the first job may have been lost.
      if (work.acked === undefined || inTail(work.acked.from, line.at)) return false
      if (e === 'wrong') return true
      if (e === 'asked again') return outcome !== 'existing' || isSame !== true
      return e === 'asked with another input' && outcome !== 'conflict'
    })
    return [
      {
        promise: 'a key answers with its one job',
        checked: answers.filter(({ line }) => line.outcome !== undefined && line.e !== 'reported').length,
        broken: broken.map(({ line, work }) => `${work.w}: ${line.e}: ${line.outcome}`),
      },
    ]
  },
}
