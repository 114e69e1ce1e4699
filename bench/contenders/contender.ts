/**
 * The interface of a queue, so that every scenario is written once. It runs in a process of its own, on the same Node as all
 * others: see process/child.ts.
 */
import { readFileSync } from 'node:fs'
import type { Client } from 'pg'
import type { Input } from '../inputs.ts'

/**
 * What producer and worker are asked to be good at. Each contender has its best documented setting for each:
 *   backlog        everything is there; as many no-op jobs a second as possible
 *   steady         the same while jobs come in
 *   slow-handlers  a backlog, and 500 handlers at a time that each wait for something
 *   handlers-50    a backlog, and 50 handlers at a time that each wait for a few milliseconds
 *   latency        a job now and then, started at once
 *   one-by-one     a backlog, and one job from end to end before the next is claimed
 *   one-handler    a backlog, and one handler at a time; jobs may be claimed ahead, and completed together
 *   trickle-50     jobs one by one, and up to 50 handlers at a time that each wait for something
 *   trickle-10     the same with 10
 *   keys           a backlog of many keys, whose jobs run one after the other
 *   one-key        the same, and all jobs have one key
 */
export type Style =
  | 'backlog'
  | 'steady'
  | 'slow-handlers'
  | 'handlers-50'
  | 'latency'
  | 'one-by-one'
  | 'one-handler'
  | 'trickle-50'
  | 'trickle-10'
  | 'keys'
  | 'one-key'

export const SLOW_HANDLERS = 500

export type Handle = (input: Pick<Input, 'orderId' | 'key'>) => Promise<void>

export interface Contender {
  readonly version: string
  /** Why these settings are its best: what was tried and what it gave. */
  readonly why: string
  /** Jobs in a call of its bulk enqueue. */
  readonly enqueueBatch: number
  /** Counts the jobs that have no committed outcome yet. */
  readonly unfinished: string
  /** Makes its tables in an empty database. */
  setUp(url: string): Promise<void>
  produce(url: string, style: Style): Promise<Producer>
  work(url: string, style: Style, handle: Handle): Promise<Work>
  /** Left out by those that cannot claim in a transaction of the caller. */
  claims?(url: string, db: Client, from: ClaimsFrom): Promise<Claims>
}

export interface Producer {
  enqueueMany(inputs: readonly Input[]): Promise<unknown>
  enqueue(input: Input): Promise<unknown>
  /** In a transaction that is open on `tx`. Left out by those that cannot. */
  enqueueWithin?(tx: Client, input: Input): Promise<unknown>
  close(): Promise<unknown>
}

/** From the beginning, or from where the last claim of a worker ended. */
export type ClaimsFrom = 'start' | 'marks'

/** The claim by itself, without a worker around it. */
export interface Claims {
  /** In the transaction that is open on `db`. Returns how many jobs it took. */
  claim(limit: number): Promise<number>
  close(): Promise<unknown>
}

export interface Work {
  /** Lets handlers finish and releases the rest. */
  stop(): Promise<unknown>
}

/** As pinned in bench/package.json. */
export function pinnedVersion(dependency: string): string {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  return manifest.dependencies[dependency]
}
