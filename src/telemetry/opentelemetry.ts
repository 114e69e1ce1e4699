/** `leasehold/opentelemetry`: spans of enqueues and handlers, and metrics of workers. Needs `@opentelemetry/api`. */
import {
  type Attributes,
  context,
  metrics,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { InvalidOptionError } from '../core/errors.ts'
import { checkOptions } from '../core/options.ts'
import { Cancel, Snooze } from '../core/steering.ts'
import type { TracedJob, TracedKind, Tracing } from '../core/tracing.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import { VERSION } from '../version.ts'
import type { JobInfo, JobTimes } from '../worker/events.ts'
import { OUTCOMES } from './process-metrics.ts'
import { onEachWorker, runningWorkers } from './running-workers.ts'
import { carriedBy, readContext } from './trace-context.ts'

/** Names of the messaging conventions, which may change in a minor version of their package, and our own. */
const SYSTEM = 'messaging.system'
const DESTINATION = 'messaging.destination.name'
const OPERATION_NAME = 'messaging.operation.name'
const OPERATION_TYPE = 'messaging.operation.type'
const MESSAGE_ID = 'messaging.message.id'
const MESSAGE_COUNT = 'messaging.batch.message_count'
const ERROR_TYPE = 'error.type'
const KIND = 'leasehold.job.kind'
const ATTEMPT = 'leasehold.job.attempt'
const OUTCOME = 'leasehold.job.outcome'

export interface InstrumentOptions {
  /**
   * How the span of a handler refers to that of the enqueue. link: it begins a trace of its own, since a job may run hours later and
   * several times. parent: it continues the producer's trace. Default: link.
   */
  readonly producer?: 'link' | 'parent'
}

/**
 * Traces enqueues and handlers of this Leasehold, and measures its workers, with the global providers of OpenTelemetry. Call it once,
 * after these were set.
 */
export function instrument(leasehold: object, options: InstrumentOptions = {}): void {
  const connection = connectionOf('instrument', leasehold)
  checkOptions('instrument', options, ['producer'])
  const { producer = 'link' } = options
  if (producer !== 'link' && producer !== 'parent') {
    throw new InvalidOptionError('instrument.producer', "it must be 'link' or 'parent'")
  }
  if (connection.tracing !== undefined)
    throw new InvalidOptionError('instrument', 'this Leasehold is instrumented already')
  connection.tracing = new Spans(producer)
  measure(connection)
}

class Spans implements Tracing {
  readonly #producer: 'link' | 'parent'
  readonly #tracer = trace.getTracer('leasehold', VERSION)

  constructor(producer: 'link' | 'parent') {
    this.#producer = producer
  }

  async enqueue<Sent>(
    { name, queue }: TracedKind,
    jobs: number,
    send: (carried: Readonly<Record<string, string>>) => Promise<Sent>,
  ): Promise<Sent> {
    const attributes = { ...describes('send', queue, name), ...(jobs === 1 ? {} : { [MESSAGE_COUNT]: jobs }) }
    const span = this.#tracer.startSpan(`send ${queue}`, { kind: SpanKind.PRODUCER, attributes })
    return within(span, trace.setSpan(context.active(), span), () => send(carriedBy(span.spanContext())))
  }

  async handle<Result>(job: TracedJob, run: () => Promise<Result>): Promise<Result> {
    const { queue, kind, jobId, attempt, metadata } = job
    const attributes = { ...describes('process', queue, kind), [MESSAGE_ID]: jobId, [ATTEMPT]: attempt }
    const enqueued = readContext(metadata)
    const continues = enqueued !== undefined && this.#producer === 'parent'
    const parent = continues ? trace.setSpanContext(ROOT_CONTEXT, enqueued) : ROOT_CONTEXT
    const links = enqueued === undefined || continues ? [] : [{ context: enqueued }]
    const span = this.#tracer.startSpan(`process ${queue}`, { kind: SpanKind.CONSUMER, attributes, links }, parent)
    return within(span, trace.setSpan(parent, span), run)
  }
}

function describes(operation: 'send' | 'process', queue: string, kind: string): Attributes {
  return {
    [SYSTEM]: 'leasehold',
    [DESTINATION]: queue,
    [OPERATION_NAME]: operation,
    [OPERATION_TYPE]: operation,
    [KIND]: kind,
  }
}

async function within<Result>(span: Span, active: typeof ROOT_CONTEXT, run: () => Promise<Result>): Promise<Result> {
  try {
    return await context.with(active, run)
  } catch (error) {
    noteFailure(span, error)
    throw error
  } finally {
    span.end()
  }
}

/** A snoozed or cancelled job has not failed. What was thrown may be anything, also a proxy that throws when it is read. */
function noteFailure(span: Span, error: unknown): void {
  try {
    if (error instanceof Snooze || error instanceof Cancel) return
    const { code, name, message } = (error ?? {}) as { code?: unknown; name?: unknown; message?: unknown }
    span.setAttribute(ERROR_TYPE, String(code ?? name ?? '_OTHER'))
    span.setStatus({ code: SpanStatusCode.ERROR, message: String(message ?? error) })
    if (error instanceof Error) span.recordException(error)
  } catch {
    span.setStatus({ code: SpanStatusCode.ERROR })
  }
}

function measure(connection: Connection): void {
  const meter = metrics.getMeter('leasehold', VERSION)
  const outcomes = meter.createCounter('leasehold.job.outcomes', { description: 'Outcomes that were recorded.' })
  const duration = meter.createHistogram('messaging.process.duration', {
    description: 'How long handlers ran.',
    unit: 's',
  })
  const startDelay = meter.createHistogram('leasehold.job.start_delay', {
    description: 'From when a job was due until its handler began.',
    unit: 's',
  })
  const running = meter.createObservableGauge('leasehold.jobs.running', { description: 'Jobs whose handlers run.' })
  running.addCallback((result) => {
    result.observe(runningWorkers(connection).reduce((total, { health }) => total + health.running, 0))
  })
  onEachWorker(connection, (worker) => {
    for (const outcome of OUTCOMES) {
      worker.on(outcome, (job: JobInfo & Partial<JobTimes>) => {
        const attributes = { [SYSTEM]: 'leasehold', [DESTINATION]: job.queue, [KIND]: job.kind, [OUTCOME]: outcome }
        outcomes.add(1, attributes)
        if (job.durationMs === undefined) return
        duration.record(job.durationMs / 1_000, attributes)
        startDelay.record(job.waitMs! / 1_000, attributes)
      })
    }
  })
}
