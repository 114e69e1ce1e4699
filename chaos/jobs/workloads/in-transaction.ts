/** Enqueued in a business transaction, which commits or rolls back. */
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

export const inTransaction: Workload = {
  name: 'in transaction',
  share: 12,
  kinds: { in_transaction: { maxAttempts: 6, backoff: { first: '150ms', max: '800ms' } } },
  tables: 'create table chaos.business (w text not null);',
  plan: (random) => ({ ms: durationFrom(random), rollsBack: random() < 0.35 }),
  produce: async ({ input, pool, enqueue, note }) => {
    const { w, rollsBack } = input
    if (rollsBack) note('rolls back')
    const tx = await pool.connect()
    let broken: Error | undefined
    try {
      await tx.query('begin')
      await tx.query('insert into chaos.business values ($1)', [w])
      const { jobId, outcome } = await enqueue(input, { tx })
      await tx.query(rollsBack ? 'rollback' : 'commit')
      note(rollsBack ? 'rolled back' : 'acked', { job: jobId, outcome })
    } catch (error) {
      broken = error as Error
      throw error
    } finally {
      tx.release(broken)
    }
  },
  handle: async (run) => {
    await run.rest(run.input.ms as number)
  },
  ends: () => ['completed', 'attempts_exhausted', 'lease_expired'],
  check: ({ rows }, works) => {
    const business = new Set(rows.tables.business!.map(({ w }) => w))
    const broken = works.filter((work) => business.has(work.w) !== work.rows.length > 0)
    return [
      {
        promise: 'a business row and its job are both there or both not',
        checked: works.length,
        broken: broken.map(
          ({ w, rows }) => `${w}: ${rows.length === 0 ? 'a row without a job' : 'a job without its row'}`,
        ),
      },
    ]
  },
}
