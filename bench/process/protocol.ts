/** What the benchmark and the processes of its contenders say to each other. All of it goes through JSON. */
import type { Style } from '../contenders/contender.ts'

export const PAYLOAD_BYTES = 120

/** A process serves one contender. Each command is answered once, by its result or an error. */
export interface Commands {
  describe(options: object): Description
  setUp(options: At): object
  /** Enqueues the inputs from … to in the contender's own batches, one after the other. */
  fill(options: At & Range & { readonly warmUp: number }): Filled
  /** The same beside a worker: never more than `backlog` ahead of what `finished` said last. */
  produce(options: At & Range & { readonly batch: number; readonly backlog: number }): Produced
  finished(options: { readonly count: number }): object
  /** One transaction after the other: an order is inserted and a job enqueued, unless `bare`. */
  transactions(options: At & { readonly count: number; readonly bare: boolean }): Latencies
  /** A worker waits; now and then a job is enqueued. From just before the call to the start of its handler. */
  trickle(options: At & { readonly count: number }): Latencies
  /** Answers when the worker has been started. Marks are sent as handlers are called. */
  work(options: At & WorkOptions): object
  usage(options: { readonly collectGarbage?: boolean }): Usage
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
}

export interface Produced {
  readonly firstAtMs: number
}

export interface Latencies {
  readonly milliseconds: readonly number[]
}

export interface WorkOptions {
  readonly style: Style
  /** Every job there is, by the range of inputs: one handled twice, or not among them, is an error. */
  readonly jobs: number
  /** How long a handler waits. */
  readonly handlerMs?: number
  /** Calls of the handler at which a mark is sent, ascending. */
  readonly marks: readonly number[]
  /** Marks come with the memory that is left after a collection, which takes a while. */
  readonly collectGarbage?: boolean
}

export interface Usage {
  /** Calls of the handler. */
  readonly handled: number
  readonly atMs: number
  readonly nodeMicros: number
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

/** The same clock in every process of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
