/** The messages between the benchmark and the processes of its contenders. All of it goes through JSON. */
import type { ClaimsFrom, Style } from '../contenders/contender.ts'
import type { KeyOrder } from '../inputs.ts'

export const PAYLOAD_BYTES = 120

/** A process serves one contender. Each command has one reply, its result or an error. */
export interface Commands {
  describe(options: object): Description
  setUp(options: At): object
  /** Enqueues the inputs from … to in the contender's own batches, one after the other. */
  fill(options: At & Range & FillOptions): Filled
  /** The same beside a worker: never more than `backlog` ahead of the last `finished`. */
  produce(options: At & Range & { readonly batch: number; readonly backlog: number }): Produced
  finished(options: { readonly count: number }): object
  /** One transaction after the other: an order is inserted and a job enqueued, unless `bare`. */
  transactions(options: At & { readonly count: number; readonly bare: boolean }): Latencies
  /** A worker waits; now and then a job is enqueued. From just before the call to the start of its handler. */
  idle(options: At & { readonly count: number; readonly keys?: number }): Latencies
  /** One claim after the other, each rolled back. `claimed`: how many jobs the last one took. */
  claims(options: At & ClaimOptions): ClaimCost
  /** Single enqueues at random times, so many a second on average. Replies when all of them are committed. */
  trickle(options: At & Arriving & { readonly warmUp: WarmUp }): Arrivals
  /** Small batches at regular times. Ends early, and reports it, when it has taken too long. */
  pace(options: At & Arriving & { readonly batch: number; readonly limitSeconds: number }): Paced
  /** Replies when the worker has been started. Marks are sent as handlers are called. */
  work(options: At & WorkOptions): object
  usage(options: { readonly collectGarbage?: boolean }): Usage
  /** When the handler of each job was called, by the number of the job. Null for those that were not. */
  starts(options: object): { readonly startedAtMs: readonly (number | null)[] }
  /** Which jobs were handled here: a byte for each, 1 if so, in base64. */
  seen(options: object): { readonly jobs: string }
  /** Stops the worker in good order. */
  stop(options: object): { readonly handled: number }
}

export interface At {
  readonly url: string
}

export interface Range {
  readonly from: number
  readonly to: number
}

export interface FillOptions {
  readonly warmUp: number
  /** See inputs.ts. */
  readonly keys?: number
  readonly keyOrder?: KeyOrder | undefined
  /** Jobs in a call. 1: single enqueues. Default: as many as suit the contender. */
  readonly batch?: number
  /** The server's main process, if its processor time is to be measured. */
  readonly postmaster?: number
}

export interface ClaimOptions {
  readonly count: number
  readonly warmUp: number
  /** Jobs of a claim. */
  readonly limit: number
  /** Default: start. */
  readonly from?: ClaimsFrom
}

export interface ClaimCost {
  readonly claimed: number
  /** Processor time of the backend, of each claim and its rollback. Null where the system has no figure. */
  readonly micros: number | null
}

export interface Description {
  readonly version: string
  readonly why: string
  readonly enqueueBatch: number
  readonly unfinished: string
  readonly node: string
}

export interface Filled {
  readonly jobs: number
  readonly seconds: number
  readonly nodeMicros: number
  readonly databaseMicros: number | null
}

export interface Produced {
  readonly firstAtMs: number
}

export interface Arriving {
  readonly style: Style
  readonly jobs: number
  readonly perSecond: number
}

/** The first jobs come so many times as fast, and their handlers take so much less. */
export interface WarmUp {
  readonly jobs: number
  readonly faster: number
}

export interface Arrivals {
  /** Just before each enqueue was called, in the order of the jobs. */
  readonly calledAtMs: readonly number[]
}

export interface Paced {
  readonly firstAtMs: number
  readonly sent: number
}

export interface Latencies {
  readonly milliseconds: readonly number[]
}

export interface WorkOptions {
  readonly style: Style
  /** Every job there is, by the range of inputs: one handled twice, or not among them, is an error. */
  readonly jobs: number
  /** Jobs of a key that start out of order, or before the one in front has ended, are an error. */
  readonly ordered?: boolean
  /** How long a handler waits. */
  readonly handlerMs?: number
  /** The same, but exponentially distributed with this mean: see arrivals.ts. Starts are noted down. */
  readonly handlerMeanMs?: number
  readonly warmUp?: WarmUp
  /** Calls of the handler at which a mark is sent, ascending. */
  readonly marks: readonly number[]
  /** Marks carry the memory that is left after a collection, which takes a while. */
  readonly collectGarbage?: boolean
}

export interface Usage {
  /** Calls of the handler. */
  readonly handled: number
  readonly atMs: number
  readonly nodeMicros: number
  /** See statements.ts. */
  readonly statements: number
  readonly commits: number
  readonly rssBytes: number
  readonly heapBytes: number
}

export interface Request {
  readonly id: number
  readonly command: keyof Commands
  readonly options: unknown
}

export type Message =
  | { readonly type: 'result'; readonly id: number; readonly result: unknown }
  | { readonly type: 'error'; readonly id: number | null; readonly message: string }
  | { readonly type: 'mark'; readonly usage: Usage }

/** The same clock in every process of the machine: CLOCK_MONOTONIC on Linux, which starts with the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
