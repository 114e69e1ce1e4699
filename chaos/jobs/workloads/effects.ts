/** Effects by once(): one outside the database, one in a transaction. Handlers fail after them, so that they are retried. */
import { groupedBy } from '../history.ts'
import type { Workload } from '../workload.ts'

export const effects: Workload = {
  name: 'effects',
  share: 10,
  kinds: { effects: { maxAttempts: 8, backoff: { first: '150ms', max: '800ms' } } },
  tables: 'create table chaos.charged (w text not null, job bigint not null);',
  plan: (random) => ({
    ms: Math.round(random() * 400),
    fails: random() < 0.5 ? 1 + Math.floor(random() * 2) : 0,
    ifUnknown: random() < 0.3 ? 'retry' : 'stop',
  }),
  handle: async (run) => {
    const { input, id, attempt, pool, once, note } = run
    const ifUnknown = input.ifUnknown as 'retry' | 'stop'
    const reported = await once(
      'call',
      async () => {
        await run.rest((input.ms as number) / 2)
        // The provider: a file that no fault touches.
        note('effect')
        return { of: input.w }
      },
      { ifUnknown },
    )
    if (reported.of !== input.w) note('wrong', { reported })
    await run.rest((input.ms as number) / 2)
    const tx = await pool.connect()
    let broken: Error | undefined
    try {
      await tx.query('begin')
      await once(
        'charge',
        (within) => within.query('insert into chaos.charged values ($1, $2)', [input.w, id]).then(() => 1),
        { tx },
      )
      await tx.query('commit')
    } catch (error) {
      await tx.query('rollback').catch((lost) => {
        broken = lost
      })
      throw error
    } finally {
      tx.release(broken)
    }
    if (attempt <= (input.fails as number)) throw new Error('on purpose')
  },
  ends: ({ script }) => [
    'completed',
    'attempts_exhausted',
    'lease_expired',
    ...(script.ifUnknown === 'stop' ? ['effect_unknown'] : []),
  ],
  check: (history, works) => {
    const { rows, tails } = history
    const charged = groupedBy(rows.tables.charged!, ({ w }) => w as string)
    const counted = works.map((work) => {
      const calls = work.lines.filter(({ e }) => e === 'effect')
      // Its marker may be lost, and the job may be another one with the same work.
      const isInTail = tails.some((tail) =>
        work.runs.some(({ startedAt, endedAt }) => startedAt <= tail.to && tail.from <= endedAt),
      )
      return { work, calls, isInTail, status: work.rows[0]?.status, rows: charged.get(work.w)?.length ?? 0 }
    })
    return [
      {
        promise: 'an effect outside the database happens at most once',
        checked: works.length,
        broken: counted
          .filter(({ work, calls, isInTail }) => calls.length > 1 && work.script.ifUnknown === 'stop' && !isInTail)
          .map(
            ({ work, calls }) =>
              `${work.w}: ${calls.length} times, by ${calls.map(({ p, gen }) => `${p} under ${gen}`).join(' and ')}`,
          ),
      },
      {
        promise: 'a completed job has had its effects, with their results',
        checked: counted.filter(({ status }) => status === 'completed').length,
        broken: counted
          .filter(({ calls, status, rows, work, isInTail }) => {
            if (work.lines.some(({ e }) => e === 'wrong')) return true
            // The handler's own commit may be lost with a tail, and its job be completed at the new primary afterwards.
            return status === 'completed' && (calls.length === 0 || (rows === 0 && !isInTail))
          })
          .map(({ work, calls, rows }) => `${work.w}: ${calls.length} calls, ${rows} rows`),
      },
      {
        promise: 'an effect in a transaction happens at most once',
        checked: works.length,
        broken: counted.filter(({ rows }) => rows > 1).map(({ work, rows }) => `${work.w}: ${rows} rows`),
      },
    ]
  },
}
