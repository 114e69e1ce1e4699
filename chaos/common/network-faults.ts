/** Faults of connections, at a proxy. Each returns whether it had an effect. */
import type { FaultyProxy } from '../../tools/faulty-proxy.ts'

/** Ends early when the run does. */
type Wait = (ms: number) => Promise<void>

const STATEMENT_WITHIN_MS = 6_000

export function cutConnections(proxy: FaultyProxy): boolean {
  const bit = proxy.connections > 0
  proxy.cut()
  return bit
}

export async function freeze(proxy: FaultyProxy, forMs: number, wait: Wait): Promise<boolean> {
  const bit = proxy.connections > 0
  proxy.freeze()
  await wait(forMs)
  proxy.thaw()
  return bit
}

export async function refuse(proxy: FaultyProxy, forMs: number, wait: Wait): Promise<boolean> {
  proxy.refuse()
  proxy.cut()
  await wait(forMs)
  proxy.accept()
  return true
}

export async function delayReplies(proxy: FaultyProxy, byMs: number, forMs: number, wait: Wait): Promise<boolean> {
  const bit = proxy.connections > 0
  proxy.delayReplies(byMs)
  await wait(forMs)
  proxy.delayReplies(0)
  return bit
}

/** The statement is carried out, and its sender does not learn it. It must come by in time, or the fault does not bite. */
export function cutReply(
  proxy: FaultyProxy,
  statement: RegExp | string,
  wait: Wait,
  withinMs = STATEMENT_WITHIN_MS,
): Promise<boolean> {
  const cut = proxy.cutReplies(statement).then(() => true)
  return Promise.race([cut, wait(withinMs).then(() => false)])
}
