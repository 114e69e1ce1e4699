/** Completed in the handler's own transaction, together with a business row; some roll back and are retried. */
import { groupedBy } from '../history.ts'
import type { Workload } from '../workload.ts'
import { durationFrom } from './duration.ts'

export const completeWithin: Workload = {
  name: 'complete within',
  share: 12,
  kinds: { complete_within: { maxAttempts: 8, backoff: { first: '150ms', max: '800ms' } } },
  tables: 'create table chaos.done (w text not null, job bigint not null, generation bigint not null);',
  plan: (random) => ({ ms: durationFrom(random), rollsBack: random() < 0.2 }),
  handle: async (run) => {
    const { input, id, generation, attempt } = run
    await run.rest(input.ms as number)
    const tx = await run.pool.connect()
    let broken: Error | undefined
    try {
      await tx.query('begin')
      await tx.query('insert into chaos.done values ($1, $2, $3)', [input.w, id, generation])
      await run.complete(tx, { w: input.w })
      if (input.rollsBack && attempt === 1) throw new Error('on purpose')
      await tx.query('commit')
    } catch (error) {
      await tx.query('rollback').catch((lost) => {
        broken = lost
      })
      throw error
    } finally {
      tx.release(broken)
    }
  },
  ends: () => ['completed', 'attempts_exhausted', 'lease_expired'],
  check: ({ rows, rowOf }, works) => {
    const done = groupedBy(rows.tables.done!, ({ w }) => w as string)
    const broken = works.flatMap(({ w, rows: [row] }) => {
      const found = done.get(w) ?? []
      const expected = row?.status === 'completed' ? 1 : 0
      if (found.length !== expected) return [`${w}: ${found.length} business rows, and the job is ${row?.status}`]
      const under = Number(found[0]?.generation ?? row?.generation)
      return row !== undefined && under !== rowOf.get(row.id)!.generation && expected === 1
        ? [`${w}: written under ${under}, completed under ${row.generation}`]
        : []
    })
    return [{ promise: 'complete(tx) is there exactly when its business row is', checked: works.length, broken }]
  },
}
