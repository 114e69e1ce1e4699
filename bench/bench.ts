/** The context of every scenario. */
import type { ContenderName } from './contenders/names.ts'
import type { Description } from './process/protocol.ts'
import type { Remote } from './process/remote.ts'
import type { Results } from './results.ts'
import type { BenchServer, Database } from './server.ts'

export interface Bench {
  readonly server: BenchServer
  readonly sizes: Sizes
  readonly results: Results
  /** The contenders of this run. */
  readonly contenders: readonly ContenderName[]
  /** Of all that take part. */
  readonly descriptions: ReadonlyMap<ContenderName, Description>
  /** A process for a contender. */
  start(contender: ContenderName, execArgv?: readonly string[]): Remote
  say(text: string): void
}

export interface Sizes {
  readonly rounds: number
  /** Where no bar is set, in the scenarios that take longest. */
  readonly fewerRounds: number
  /** With and without a burden, where a bar is set: the machine's noise is larger than most of what is measured. */
  readonly pairs: number
  /** Drain and never-analyzed. */
  readonly jobs: number
  /** For 10 to 40 seconds: of 300,000 Node compiles during a good part, and no table has grown yet. */
  readonly steadyJobs: number
  /** The same for contenders that take milliseconds for each. */
  readonly slowJobs: number
  readonly asyncJobs: number
  /** Transactions. */
  readonly singles: number
  /** Jobs that are done one by one. */
  readonly oneByOne: number
  readonly oneHandler: number
  /** Jobs that come now and then to a worker that waits. */
  readonly idle: number
  readonly trickle: TrickleSizes
  /** Shared by several worker processes: handlers that do nothing, and those that wait. */
  readonly workersJobs: number
  readonly workersSlowJobs: number
  /** Drained beside a burden. */
  readonly beside: number
  /** Held-snapshot: what is left behind adds up. */
  readonly heldJobs: number
  /** Held-snapshot-long. */
  readonly heldMinutes: number
  readonly backlog: number
  readonly scheduled: number
  readonly inFlight: number
  readonly order: OrderSizes
  readonly fleet: FleetSizes
}

export interface OrderSizes {
  /** Drained, with 1,000 keys. */
  readonly jobs: number
  readonly keys: number
  /** Of one key, drained. */
  readonly ofOneKey: number
  /** Of which peers do so many. */
  readonly ofOneKeyByPeers: number
  readonly enqueued: number
  readonly singles: number
  /** Waiting while others are claimed. */
  readonly waiting: number
  readonly claims: number
  readonly pairs: number
}

export interface FleetSizes {
  readonly rounds: number
  readonly jobs: number
  /** Whose handlers wait. */
  readonly slowJobs: number
  readonly keys: number
  readonly enqueued: number
  readonly singles: number
  /** Of the worker that claims, and of the seven others. */
  readonly own: number
  readonly others: number
  readonly claims: number
  readonly pairs: number
  readonly idleSeconds: number
  readonly takeovers: number
}

export interface TrickleSizes {
  /** Of those that a bar is about. */
  readonly rounds: number
  readonly warmUpJobs: number
  readonly seconds: number
}

export const FULL: Sizes = {
  rounds: 3,
  fewerRounds: 2,
  pairs: 3,
  jobs: 300_000,
  steadyJobs: 1_000_000,
  slowJobs: 5_000,
  asyncJobs: 50_000,
  singles: 1_500,
  oneByOne: 20_000,
  oneHandler: 100_000,
  idle: 200,
  trickle: { rounds: 5, warmUpJobs: 4_000, seconds: 10 },
  workersJobs: 400_000,
  workersSlowJobs: 60_000,
  beside: 150_000,
  heldJobs: 300_000,
  heldMinutes: 3,
  backlog: 1_000_000,
  scheduled: 1_000_000,
  inFlight: 20_000,
  order: {
    jobs: 100_000,
    keys: 1_000,
    ofOneKey: 20_000,
    ofOneKeyByPeers: 1_000,
    enqueued: 60_000,
    singles: 1_500,
    waiting: 200_000,
    claims: 200,
    pairs: 7,
  },
  fleet: {
    rounds: 5,
    jobs: 90_000,
    slowJobs: 24_000,
    keys: 10_000,
    enqueued: 60_000,
    singles: 1_500,
    own: 20_000,
    others: 300_000,
    claims: 200,
    pairs: 5,
    idleSeconds: 20,
    takeovers: 3,
  },
}

/** Proves that everything runs; its figures mean little. */
export const QUICK: Sizes = {
  rounds: 1,
  fewerRounds: 1,
  pairs: 1,
  jobs: 10_000,
  steadyJobs: 10_000,
  slowJobs: 1_000,
  asyncJobs: 5_000,
  singles: 200,
  oneByOne: 200,
  oneHandler: 5_000,
  idle: 20,
  trickle: { rounds: 1, warmUpJobs: 150, seconds: 2 },
  workersJobs: 15_000,
  workersSlowJobs: 4_000,
  beside: 5_000,
  heldJobs: 10_000,
  heldMinutes: 0.1,
  backlog: 30_000,
  scheduled: 20_000,
  inFlight: 2_000,
  order: {
    jobs: 10_000,
    keys: 1_000,
    ofOneKey: 5_000,
    ofOneKeyByPeers: 100,
    enqueued: 10_000,
    singles: 200,
    waiting: 10_000,
    claims: 20,
    pairs: 1,
  },
  fleet: {
    rounds: 1,
    jobs: 12_000,
    slowJobs: 3_000,
    keys: 2_000,
    enqueued: 5_000,
    singles: 100,
    own: 10_000,
    others: 30_000,
    claims: 20,
    pairs: 1,
    idleSeconds: 3,
    takeovers: 1,
  },
}

/** Those of them that take part. */
export function among<Name extends ContenderName>(bench: Bench, contenders: readonly Name[]): Name[] {
  return contenders.filter((contender) => bench.contenders.includes(contender))
}

/** An empty database with the contender's tables. */
export function freshDatabase(bench: Bench, contender: ContenderName): Promise<Database> {
  return bench.server.clone(`schema-${contender}`, (_main, url) => setUp(bench, contender, url))
}

export async function setUp(bench: Bench, contender: ContenderName, url: string): Promise<void> {
  await withProcess(bench, contender, (remote) => remote.call('setUp', { url }))
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
