/** What a worker did between two moments, as figures. */
import type { Bench } from './bench.ts'
import type { Span } from './measure.ts'
import type { Subject } from './results.ts'

export function addSpans(bench: Bench, scenario: string, subject: Subject, spans: readonly Span[]): void {
  const jobs = Math.min(...spans.map((span) => span.jobs))
  const perJob = (of: (span: Span) => number | null) =>
    spans.map((span) => {
      const value = of(span)
      return value === null ? null : value / span.jobs
    })
  const { results } = bench
  const rates = spans.map((span) => span.jobs / span.seconds)
  results.add(scenario, subject, 'jobsPerSecond', jobs, rates)
  const [node, database] = [perJob(({ nodeMicros }) => nodeMicros), perJob(({ databaseMicros }) => databaseMicros)]
  results.add(scenario, subject, 'nodeMicrosPerJob', jobs, node)
  results.add(scenario, subject, 'databaseMicrosPerJob', jobs, database)
  const [statements, commits] = [perJob((span) => span.statements), perJob((span) => span.commits)]
  results.add(scenario, subject, 'statementsPerJob', jobs, statements)
  results.add(scenario, subject, 'commitsPerJob', jobs, commits)
}

export function saidPerSecond({ jobs, seconds }: { readonly jobs: number; readonly seconds: number }): string {
  return `${Math.round(jobs / seconds).toLocaleString('en')} jobs/s`
}
