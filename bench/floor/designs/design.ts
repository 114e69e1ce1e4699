/** What a storage design must offer so that every scenario is written once. */
import type { Client } from 'pg'
import type { Lease } from '../../../src/jobs/job.ts'

/** One connection that claims and completes. */
export interface BenchWorker {
  claim(limit: number): Promise<readonly Lease[]>
  /** Ends all of them, or throws when one was refused. Returns how many had to be sent again. */
  complete(leases: readonly Lease[]): Promise<number>
  /** Ends all of them and claims more, in one statement, if the design has one. */
  turn?(leases: readonly Lease[], limit: number): Promise<readonly Lease[]>
}

export interface Design {
  readonly name: string
  /** The table that a claim updates: whose heap-only updates are counted. */
  readonly table: string
  /** 1 when only the claim updates the row, 2 when its completion does too. */
  readonly updatesPerJob: number
  readonly keepsFinished: boolean
  setup(db: Client): Promise<void>
  /** Stores a batch in one transaction. */
  producer(db: Client): (inputs: readonly unknown[]) => Promise<void>
  worker(db: Client): BenchWorker
  count(db: Client): Promise<{ unfinished: number; finished: number }>
}
