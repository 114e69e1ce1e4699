/** How long one thing takes when nothing else is going on. */
import { among, type Bench, freshDatabase, withProcess } from '../bench.ts'
import { type ContenderName, QUEUES } from '../contenders/names.ts'
import type { Subject } from '../results.ts'
import { interleaved } from '../rounds.ts'
import { percentile } from '../statistics.ts'

/** BullMQ has no way into the caller's transaction, so it is not among them. */
const TRANSACTIONAL: readonly ContenderName[] = ['leasehold', 'graphile-worker', 'pg-boss']

/** Begin, insert an order, enqueue in that same transaction, commit. `bare` is the transaction without the enqueue. */
export async function singleScenario(bench: Bench): Promise<void> {
  const count = bench.sizes.singles
  const subjects: (ContenderName | 'bare')[] = [...among(bench, TRANSACTIONAL), 'bare']
  const runs = await interleaved(bench, 'single', subjects, async (subject) => {
    const bare = subject === 'bare'
    const contender = bare ? 'leasehold' : subject
    const database = await freshDatabase(bench, contender)
    const options = { url: database.url, count, bare }
    const { milliseconds } = await withProcess(bench, contender, (remote) => remote.call('transactions', options))
    await database.drop()
    return { result: milliseconds, said: said(milliseconds) }
  })
  for (const [subject, rounds] of runs) {
    addLatencies(bench, 'single', subject, rounds)
    const rates = rounds.map((latencies) => 1000 / percentile(latencies, 0.5))
    bench.results.add('single', subject, 'perSecondAtP50', count, rates)
  }
}

/** A worker waits. Now and then a job is enqueued: from just before that call to the start of its handler. */
export async function idleScenario(bench: Bench): Promise<void> {
  const contenders = among(
    bench,
    QUEUES.filter((queue) => queue !== 'leasehold-not-kept'),
  )
  const run = async (contender: ContenderName) => {
    const database = await freshDatabase(bench, contender)
    const options = { url: database.url, count: bench.sizes.idle }
    const { milliseconds } = await withProcess(bench, contender, (remote) => remote.call('idle', options))
    await database.drop()
    return { result: milliseconds, said: said(milliseconds) }
  }
  const runs = await interleaved(bench, 'idle', contenders, run)
  for (const [contender, latencies] of runs) addLatencies(bench, 'idle', contender, latencies)
}

function addLatencies(bench: Bench, scenario: string, subject: Subject, rounds: readonly (readonly number[])[]): void {
  const count = rounds[0]!.length
  const each = (share: number) => rounds.map((latencies) => percentile(latencies, share))
  bench.results.add(scenario, subject, 'p50Ms', count, each(0.5))
  bench.results.add(scenario, subject, 'p99Ms', count, each(0.99))
}

function said(latencies: readonly number[]): string {
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(latencies, share).toFixed(2))
  return `p50 ${p50} ms, p99 ${p99} ms`
}
