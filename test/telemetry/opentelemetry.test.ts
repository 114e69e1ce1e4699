// `leasehold/opentelemetry` with the real SDK.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { context, metrics, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { Fatal, handle, handleBatch, kind, Snooze } from '../../src/index.ts'
import { type InstrumentOptions, instrument } from '../../src/telemetry/opentelemetry.ts'
import { carriedBy, readContext } from '../../src/telemetry/trace-context.ts'
import { next, scene } from '../support/worker.ts'

class Reader extends MetricReader {
  protected async onForceFlush() {}
  protected async onShutdown() {}
}

async function traced(t: TestContext, options?: InstrumentOptions) {
  const exporter = new InMemorySpanExporter()
  const reader = new Reader()
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))
  t.after(() => {
    context.disable()
    trace.disable()
    metrics.disable()
  })
  const setting = await scene(t)
  instrument(setting.lh, options)
  return { ...setting, exporter, reader, spans: () => exporter.getFinishedSpans() }
}

const mail = kind<number>('mail', { queue: 'post', maxAttempts: 1 })

test('the span of a handler links to that of its enqueue, and is active in the handler', async (t) => {
  const { lh, worker, spans } = await traced(t)
  let active: string | undefined
  const busy = worker([
    handle(mail, () => {
      active = trace.getActiveSpan()?.spanContext().spanId
    }),
  ])
  const completed = next(busy, 'completed')
  const outer = trace.getTracer('test').startSpan('request')
  const { jobId } = await context.with(trace.setSpan(ROOT_CONTEXT, outer), () => lh.enqueue(mail, 1))
  await completed
  const [send, process] = spans()
  assert.equal(send!.kind, SpanKind.PRODUCER)
  assert.equal(send!.parentSpanContext?.spanId, outer.spanContext().spanId)
  assert.equal(process!.kind, SpanKind.CONSUMER)
  assert.equal(process!.parentSpanContext, undefined)
  assert.notEqual(process!.spanContext().traceId, send!.spanContext().traceId)
  assert.deepEqual(
    process!.links.map((link) => link.context.spanId),
    [send!.spanContext().spanId],
  )
  assert.equal(active, process!.spanContext().spanId)
  assert.deepEqual(process!.attributes, {
    'messaging.system': 'leasehold',
    'messaging.destination.name': 'post',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.message.id': jobId,
    'leasehold.job.kind': 'mail',
    'leasehold.job.attempt': 1,
  })
})

test("with producer: 'parent' the handler continues the trace of the enqueue", async (t) => {
  const { lh, worker, spans } = await traced(t, { producer: 'parent' })
  const completed = next(worker([handle(mail, () => {})]), 'completed')
  await lh.enqueue(mail, 1)
  await completed
  const [send, process] = spans()
  assert.equal(process!.parentSpanContext?.spanId, send!.spanContext().spanId)
  assert.equal(process!.spanContext().traceId, send!.spanContext().traceId)
  assert.deepEqual(process!.links, [])
})

test('metadata of the producer is kept, and its own traceparent wins', async (t) => {
  const { lh } = await traced(t)
  const own = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
  const [first, second] = await lh.enqueueMany(mail, [
    { input: 1, metadata: { tenant: 'x' } },
    { input: 2, metadata: { traceparent: own } },
  ])
  const stored = (await lh.get(first!.jobId))!.metadata!
  assert.equal(stored.tenant, 'x')
  assert.match(String(stored.traceparent), /^00-[\da-f]{32}-[\da-f]{16}-01$/)
  assert.deepEqual((await lh.get(second!.jobId))!.metadata, { traceparent: own })
})

test('a failure is noted on the span; a snooze is none; a thrown proxy harms nothing', async (t) => {
  const { lh, worker, spans } = await traced(t)
  const trap = () => {
    throw new Error('do not look')
  }
  const hostile = new Proxy({}, { get: trap, getPrototypeOf: trap, has: trap })
  const throws = [new Fatal('broken'), new Snooze('1h'), hostile]
  const busy = worker([
    handle(mail, ({ input }) => {
      throw throws[input]
    }),
  ])
  for (const [input, event] of [
    [0, 'dead_letter'],
    [1, 'snoozed'],
    [2, 'dead_letter'],
  ] as const) {
    const ended = next(busy, event)
    await lh.enqueue(mail, input)
    await ended
  }
  const handled = spans().filter((span) => span.kind === SpanKind.CONSUMER)
  assert.deepEqual(
    handled.map(({ status }) => status.code),
    [SpanStatusCode.ERROR, SpanStatusCode.UNSET, SpanStatusCode.ERROR],
  )
  assert.equal(handled[0]!.status.message, 'broken')
})

test('each job of a batch has a span', async (t) => {
  const { lh, worker, spans } = await traced(t)
  const sent = await lh.enqueueMany(mail, [{ input: 1 }, { input: 2 }])
  const busy = worker([handleBatch(mail, () => {}, { size: 2 })])
  await Promise.all(sent.map(({ jobId }) => next(busy, 'completed', (job) => job.jobId === jobId)))
  const [send, ...handled] = spans()
  assert.equal(send!.attributes['messaging.batch.message_count'], 2)
  assert.deepEqual(
    handled.map(({ attributes }) => attributes['messaging.message.id']).sort(),
    sent.map(({ jobId }) => jobId),
  )
})

test('outcomes, durations, delays and running jobs are measured', async (t) => {
  const { lh, worker, reader } = await traced(t)
  const completed = next(worker([handle(mail, () => {})]), 'completed')
  await lh.enqueue(mail, 1)
  await completed
  const { resourceMetrics } = await reader.collect()
  const found = resourceMetrics.scopeMetrics[0]!.metrics
  assert.deepEqual(found.map(({ descriptor }) => descriptor.name).sort(), [
    'leasehold.job.outcomes',
    'leasehold.job.start_delay',
    'leasehold.jobs.running',
    'messaging.process.duration',
  ])
  const [outcomes] = found.filter(({ descriptor }) => descriptor.name === 'leasehold.job.outcomes')
  assert.equal(outcomes!.dataPoints[0]!.value, 1)
  assert.equal(outcomes!.dataPoints[0]!.attributes['leasehold.job.outcome'], 'completed')
})

test('a second instrument(), an unknown option and what is no Leasehold are refused', async (t) => {
  const { lh, leasehold } = await traced(t)
  const refused = { code: 'INVALID_OPTION' }
  assert.throws(() => instrument(lh), refused)
  assert.throws(() => instrument({}), refused)
  assert.throws(() => instrument(leasehold(), { producers: 'link' } as never), refused)
  assert.throws(() => instrument(leasehold(), { producer: 'both' } as never), refused)
})

test('trace context is written and read as W3C describes it, and anything else is ignored', () => {
  const own = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }
  const { traceparent } = carriedBy(own)
  assert.equal(traceparent, `00-${own.traceId}-${own.spanId}-01`)
  const read = readContext(JSON.stringify({ traceparent, tracestate: 'a=1' }))!
  assert.deepEqual([read.traceId, read.spanId, read.traceFlags], [own.traceId, own.spanId, 1])
  assert.equal(read.traceState?.serialize(), 'a=1')
  assert.deepEqual(carriedBy({ ...own, traceId: '0'.repeat(32) }), {})
  for (const broken of [
    '"traceparent"',
    '{"traceparent": 1}',
    '{"traceparent": "00-x"}',
    JSON.stringify({ traceparent: `ff-${own.traceId}-${own.spanId}-01` }),
    JSON.stringify({ traceparent: `00-${'0'.repeat(32)}-${own.spanId}-01` }),
    '["traceparent"]',
    'null',
  ]) {
    assert.equal(readContext(broken), undefined, broken)
  }
})
