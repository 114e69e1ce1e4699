/** What every scenario is given. */
import type { ContenderName } from './contenders/names.ts'
import type { Description } from './process/protocol.ts'
import type { Remote } from './process/remote.ts'
import type { Results } from './results.ts'
import type { BenchServer, Database } from './server.ts'

export interface Bench {
  readonly server: BenchServer
  readonly sizes: Sizes
  readonly results: Results
  readonly descriptions: Readonly<Record<ContenderName, Description>>
  /** A process for a contender. */
  start(contender: ContenderName, execArgv?: readonly string[]): Remote
  say(text: string): void
}

export interface Sizes {
  readonly rounds: number
  readonly jobs: number
  /** For those that are a matter of milliseconds a job. */
  readonly fewJobs: number
}

export const FULL: Sizes = { rounds: 3, jobs: 100_000, fewJobs: 5_000 }

export const QUICK: Sizes = { rounds: 1, jobs: 10_000, fewJobs: 1_000 }

/** An empty database with the contender's tables. */
export function freshDatabase(bench: Bench, contender: ContenderName): Promise<Database> {
  return bench.server.clone(`schema-${contender}`, async (_main, url) => {
    await withProcess(bench, contender, (remote) => remote.call('setUp', { url }))
  })
}

/** A process that is gone when `use` has ended, one way or the other. */
export async function withProcess<Result>(
  bench: Bench,
  contender: ContenderName,
  use: (remote: Remote) => Promise<Result>,
  execArgv?: readonly string[],
): Promise<Result> {
  const remote = bench.start(contender, execArgv)
  try {
    return await use(remote)
  } finally {
    await remote.end()
  }
}
