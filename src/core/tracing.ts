/** What a tracer needs to know of a claimed job. */
export interface TracedJob {
  readonly jobId: string
  readonly kind: string
  readonly queue: string
  readonly attempt: number
  /** JSON text. */
  readonly metadata: string | null
}

export interface TracedKind {
  readonly name: string
  readonly queue: string
}

/** How an enqueue and a handler are traced. Undefined on the connection unless a tracer was attached. */
export interface Tracing {
  /** Calls `send` with what each job's metadata must carry, in a span of its own. */
  enqueue<Sent>(
    kind: TracedKind,
    jobs: number,
    send: (carried: Readonly<Record<string, string>>) => Promise<Sent>,
  ): Promise<Sent>
  /** Calls the handler in a span of its own. */
  handle<Result>(job: TracedJob, run: () => Promise<Result>): Promise<Result>
}
