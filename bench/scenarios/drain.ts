/** All is enqueued, then one worker process empties the queue. */
import { type Bench, freshDatabase } from '../bench.ts'
import { CONTENDERS, type ContenderName } from '../contenders/names.ts'
import { drain, fill, interleaved, type Span, settle } from '../drain.ts'
import type { Filled } from '../process/protocol.ts'

export async function drainScenario(bench: Bench): Promise<void> {
  const runs = await interleaved(bench, 'drain', CONTENDERS, async (contender) => {
    const jobs = jobsOf(bench, contender)
    const database = await freshDatabase(bench, contender)
    const filled = await fill(bench, contender, database.url, jobs)
    await settle(bench, database)
    const drained = await drain(bench, contender, database, jobs, { style: 'throughput' })
    await database.drop()
    const [took, put] = [drained, filled].map(perSecond)
    return { result: { filled, drained }, said: `${took} jobs/s, enqueued at ${put}/s` }
  })
  for (const [contender, own] of runs) {
    addSpans(
      bench,
      'drain',
      contender,
      own.map(({ drained }) => drained),
    )
    const { jobs } = own[0]!.filled
    bench.results.add(
      'enqueue',
      contender,
      'jobsPerSecond',
      jobs,
      own.map(({ filled }) => filled.jobs / filled.seconds),
    )
    bench.results.add(
      'enqueue',
      contender,
      'nodeMicrosPerJob',
      jobs,
      own.map(({ filled }) => filled.nodeMicros / filled.jobs),
    )
  }
}

export function jobsOf(bench: Bench, contender: ContenderName): number {
  return contender === 'bullmq' ? bench.sizes.fewJobs : bench.sizes.jobs
}

export function addSpans(bench: Bench, scenario: string, contender: ContenderName, spans: readonly Span[]): void {
  const { jobs } = spans[0]!
  const each = (of: (span: Span) => number | null) => spans.map(of)
  bench.results.add(
    scenario,
    contender,
    'jobsPerSecond',
    jobs,
    each((span) => span.jobs / span.seconds),
  )
  bench.results.add(
    scenario,
    contender,
    'nodeMicrosPerJob',
    jobs,
    each((span) => span.nodeMicros / span.jobs),
  )
  const database = each((span) => (span.databaseMicros === null ? null : span.databaseMicros / span.jobs))
  bench.results.add(scenario, contender, 'databaseMicrosPerJob', jobs, database)
}

export function perSecond({ jobs, seconds }: Filled | Span): string {
  return Math.round(jobs / seconds).toLocaleString('en')
}
