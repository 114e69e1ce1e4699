/** Producers with a clock of their own: jobs arrive when they arrive, however far the worker is. */
import { setTimeout } from 'node:timers/promises'
import type { Contender } from '../contenders/contender.ts'
import { FIRST_ORDER, makeInputs } from '../inputs.ts'
import { type Arrivals, type Commands, monotonicMs, PAYLOAD_BYTES, type WarmUp } from './protocol.ts'

const LONGEST_HANDLER_MS = 1_000
const CALLS_AT_A_TIME = 4

/**
 * One enqueue for each job, at random times: arrivals are a Poisson process, the same for every contender and round. An
 * enqueue does not wait for the one before.
 */
export async function trickle(
  contender: Contender,
  { url, style, jobs, perSecond, warmUp }: Parameters<Commands['trickle']>[0],
): Promise<Arrivals> {
  const inputs = makeInputs(jobs, PAYLOAD_BYTES)
  const producer = await contender.produce(url, style)
  const calledAtMs: number[] = []
  const calls: Promise<unknown>[] = []
  let due = monotonicMs()
  for (const [at, input] of inputs.entries()) {
    due += (exponential(at, ARRIVALS) * 1000) / (perSecond * speed(at, warmUp))
    const early = due - monotonicMs()
    if (early > 0) await setTimeout(early)
    calledAtMs.push(monotonicMs())
    const call = producer.enqueue(input)
    // Awaited below; until then a failure has no handler.
    call.catch(() => {})
    calls.push(call)
  }
  await Promise.all(calls)
  await producer.close()
  return { calledAtMs }
}

/** A small batch at regular times, a few calls at a time: a producer that is late catches up. */
export async function pace(
  contender: Contender,
  { url, style, jobs, perSecond, batch, limitSeconds }: Parameters<Commands['pace']>[0],
): Promise<{ firstAtMs: number; sent: number }> {
  const producer = await contender.produce(url, style)
  const firstAtMs = monotonicMs()
  const calls = new Set<Promise<unknown>>()
  let sent = 0
  while (sent < jobs) {
    const elapsed = monotonicMs() - firstAtMs
    if (elapsed > limitSeconds * 1000) break
    const early = (sent / perSecond) * 1000 - elapsed
    if (early > 0) await setTimeout(early)
    const count = Math.min(batch, jobs - sent)
    const call = producer.enqueueMany(makeInputs(count, PAYLOAD_BYTES, sent))
    calls.add(call)
    // One that fails stays among them, and is thrown below.
    call.then(
      () => calls.delete(call),
      () => {},
    )
    sent += count
    if (calls.size >= CALLS_AT_A_TIME) await Promise.race(calls)
  }
  await Promise.all(calls)
  await producer.close()
  return { firstAtMs, sent }
}

/** How long the handler of this job takes: exponentially distributed, and the same for every contender. */
export function handlerMs(orderId: number, meanMs: number, warmUp: WarmUp): number {
  const at = orderId - FIRST_ORDER
  return Math.min((exponential(at, HANDLERS) * meanMs) / speed(at, warmUp), LONGEST_HANDLER_MS)
}

function speed(at: number, { jobs, faster }: WarmUp): number {
  return at < jobs ? faster : 1
}

const ARRIVALS = 0x9e3779b9
const HANDLERS = 0x85ebca6b

/** Mean 1. Depends on its arguments only. */
function exponential(at: number, series: number): number {
  let bits = Math.imul(at + 1, series)
  bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b)
  bits = (bits ^ (bits >>> 16)) >>> 0
  return -Math.log(1 - bits / 2 ** 32)
}
