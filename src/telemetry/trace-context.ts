/** Trace context in the metadata of a job, as W3C Trace Context writes it. */
import type { SpanContext } from '@opentelemetry/api'
import { createTraceState, isSpanContextValid } from '@opentelemetry/api'

/** As many as a vendor must pass on. */
const TRACESTATE_CHARS = 512
const TRACEPARENT = /^(?!ff)[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-.*)?$/

/** What the metadata of a job carries. Empty: there is no span to refer to. */
export function carriedBy(context: SpanContext): Record<string, string> {
  if (!isSpanContextValid(context)) return {}
  const { traceId, spanId, traceFlags, traceState } = context
  const traceparent = `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`
  const tracestate = traceState?.serialize() ?? ''
  return tracestate === '' || tracestate.length > TRACESTATE_CHARS ? { traceparent } : { traceparent, tracestate }
}

/** Undefined: the metadata carries none, or none that can be read. Producers in SQL may write anything. */
export function readContext(metadata: string | null): SpanContext | undefined {
  if (metadata === null || !metadata.includes('traceparent')) return undefined
  const { traceparent, tracestate } = (JSON.parse(metadata) ?? {}) as Record<string, unknown>
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && TRACEPARENT.exec(traceparent)) || []
  const context = { traceId: traceId!, spanId: spanId!, traceFlags: Number.parseInt(flags!, 16) & 1, isRemote: true }
  if (traceId === undefined || !isSpanContextValid(context)) return undefined
  return typeof tracestate === 'string' ? { ...context, traceState: createTraceState(tracestate) } : context
}
