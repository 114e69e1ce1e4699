/** Jobs of a few keys in an ordered queue, some enqueued in transactions that stay open for a while. */
import type { QueueOptions } from '../../../src/core/queue.ts'
import type { Finding } from '../../common/finding.ts'
import { groupedBy, type HandlerRun, type History, touches, type Work } from '../history.ts'
import type { Workload } from '../workload.ts'

const KEYS = 8
/** Milliseconds are rounded. */
const ROUNDING_MS = 2
/** A dead letter must not keep the others from their end, so the key goes on without it. */
const QUEUE: QueueOptions = { ordered: true, onDeadLetter: 'skip' }

export const ordered: Workload = {
  name: 'ordered',
  share: 22,
  kinds: { ordered: { ordered: true, maxAttempts: 4, backoff: { first: '50ms', max: '200ms' } } },
  queues: { ordered: QUEUE },
  plan: (random) => ({
    key: `key:${Math.floor(random() * KEYS)}`,
    ms: Math.round(random() * (random() < 0.05 ? 1_500 : 25)),
    fails: random() < 0.02 ? 4 : random() < 0.15 ? 1 : 0,
    holdMs: random() < 0.3 ? Math.round(random() * 80) : -1,
  }),
  options: ({ key }) => ({ partitionKey: key as string }),
  produce: async ({ input, pool, enqueue, note }) => {
    const holdMs = input.holdMs as number
    if (holdMs < 0) {
      const { jobId, outcome } = await enqueue(input)
      return note('acked', { job: jobId, outcome })
    }
    const tx = await pool.connect()
    let broken: Error | undefined
    try {
      await tx.query('begin')
      const { jobId, outcome } = await enqueue(input, { tx })
      await tx.query('select pg_sleep($1)', [holdMs / 1_000])
      await tx.query('commit')
      note('acked', { job: jobId, outcome })
    } catch (error) {
      broken = error as Error
      throw error
    } finally {
      tx.release(broken)
    }
  },
  handle: async (run) => {
    const { ms, fails } = run.input as unknown as { ms: number; fails: number }
    await run.rest(ms)
    if (run.attempt <= fails) throw new Error('on purpose')
  },
  ends: () => ['completed', 'attempts_exhausted', 'lease_expired'],
  check: (history, works) => orderRules(history, works),
}

export function orderRules(history: History, works: readonly Work[], where = ''): Finding[] {
  const certain = works.filter((work) => isCertain(history, work))
  const keys = [...groupedBy(certain, ({ script }) => script.key as string).values()]
  return [
    {
      promise: `${where}a job of a key starts after all that were acknowledged before it was asked for have ended`,
      checked: certain.length,
      broken: keys.flatMap((own) => overtaken(own)),
    },
    {
      promise: `${where}no two jobs of a key run at a time`,
      checked: certain.length,
      broken: keys.flatMap((own) => overlapping(history, own)),
    },
  ]
}

/** Commits that are lost, and jobs that an operator redrives, come back behind others. */
function isCertain(history: History, { acked, runs, rows }: Work): boolean {
  if (acked === undefined || touches(history.tails, acked.from, acked.to)) return false
  if (runs.some(({ startedAt, endedAt }) => touches(history.tails, startedAt, endedAt + 2_000))) return false
  const ids = new Set(rows.map(({ id }) => id))
  return !history.rows.actions.some(({ action, job }) => action === 'redrive' && ids.has(job ?? ''))
}

/** The run that counts: an earlier one had lost its lease, whatever its handler did after that. */
function lastRun({ runs }: Work): HandlerRun | undefined {
  return runs.reduce<HandlerRun | undefined>(
    (last, run) => (last === undefined || run.gen > last.gen ? run : last),
    undefined,
  )
}

/**
 * A job may start when the handler before it has returned, which is recorded a moment later. If that record is lost with a lease, both
 * run again, in order. So the first start of a job comes after a run of each earlier one that returned, or after its last one; and its last
 * start comes after their last ones.
 */
function overtaken(works: readonly Work[]): string[] {
  const started = works.flatMap((work) => {
    const byStart = [...work.runs].sort((one, other) => one.startedAt - other.startedAt)
    const last = lastRun(work)
    if (last === undefined) return []
    return [{ work, first: byStart[0]!, last, ended: byStart.find(({ how }) => how === 'returned') ?? last }]
  })
  const broken: string[] = []
  for (const { work, first, last } of started) {
    for (const earlier of started) {
      if (earlier.work.acked!.to >= work.acked!.from) continue
      const tooEarly = Math.max(earlier.ended.startedAt - first.startedAt, earlier.last.startedAt - last.startedAt)
      if (tooEarly > 0) broken.push(`${work.w} (${work.script.key}) started ${tooEarly} ms before ${earlier.work.w}`)
    }
  }
  return broken
}

function overlapping({ processes }: History, works: readonly Work[]): string[] {
  // Of two that started in one millisecond the shorter one was first.
  const runs = works
    .flatMap((work) => lastRun(work) ?? [])
    .sort((one, other) => one.startedAt - other.startedAt || one.endedAt - other.endedAt)
  const broken: string[] = []
  for (const [index, run] of runs.entries()) {
    const next = runs[index + 1]
    if (next === undefined || run.endedAt <= next.startedAt + ROUNDING_MS) continue
    // It may have lost its lease while it stood still, or been told to end.
    const stalls = processes.get(run.process)?.stalls ?? []
    if (run.abortedAt !== undefined || touches(stalls, run.startedAt, run.endedAt)) continue
    broken.push(`${next.w} started ${run.endedAt - next.startedAt} ms before the end of ${run.w}`)
  }
  return broken
}
