/** Faults of connections, at the proxy. */
import { CUT_REPLIES, type FaultCard } from './deck.ts'
import type { Scene } from './scene.ts'

/** A statement of this name comes by within seconds, or the fault does not bite. */
const WAIT_FOR_STATEMENT_MS = 6_000

export async function cutConnections(_: FaultCard, { world: { proxy } }: Scene): Promise<boolean> {
  const bit = proxy.connections > 0
  proxy.cut()
  return bit
}

export async function freeze({ forMs }: FaultCard, { world: { proxy }, wait }: Scene): Promise<boolean> {
  const bit = proxy.connections > 0
  proxy.freeze()
  await wait(forMs)
  proxy.thaw()
  return bit
}

export async function refuse({ forMs }: FaultCard, { world: { proxy }, wait }: Scene): Promise<boolean> {
  proxy.refuse()
  proxy.cut()
  await wait(forMs)
  proxy.accept()
  return true
}

export async function delayReplies({ pick, forMs }: FaultCard, { world: { proxy }, wait }: Scene): Promise<boolean> {
  const bit = proxy.connections > 0
  proxy.delayReplies(50 + pick * 450)
  await wait(forMs)
  proxy.delayReplies(0)
  return bit
}

/** The statement is carried out, and its sender does not learn it. */
export async function cutReply(of: keyof typeof CUT_REPLIES, scene: Scene): Promise<boolean> {
  const { world, wait } = scene
  const cut = world.proxy.cutReplies(CUT_REPLIES[of]).then(() => true)
  return Promise.race([cut, wait(WAIT_FOR_STATEMENT_MS).then(() => false)])
}
