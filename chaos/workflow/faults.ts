/** The cards of the deck, and what carries each out. */
import type { FaultyProxy } from '../../tools/faulty-proxy.ts'
import type { FaultCard } from '../common/deck.ts'
import type { Scene as CommonScene } from '../common/drive.ts'
import { cutConnections, cutReply, freeze } from '../common/network-faults.ts'
import { LOOK_EVERY_MS, LOOKS, strikesAt } from '../common/strike.ts'
import type { Fault } from '../common/striker.ts'
import { HELD, STARTERS_REPLIES, WORKERS_REPLIES } from './plan.ts'
import type { World } from './world.ts'

export type Role = 'worker' | 'starter'

/** The parts that faults can reach. */
export type Scene = CommonScene<World, Role>

const STATEMENT_WITHIN_MS = 20_000
/** One worker of all sends such a statement every few seconds. */
const HELD_WITHIN_MS = 15_000

/** The proxy of a worker that is at work. */
async function workersProxy({ pick }: FaultCard, { world, crew, seats, wait }: Scene): Promise<FaultyProxy> {
  for (let look = 0; look < LOOKS; look++) {
    const working = crew.atWork(seats.worker).filter(({ seat }) => world.workers[seat]!.connections > 0)
    if (working.length > 0) return world.workers[working[Math.floor(pick * working.length)]!.seat]!
    await wait(LOOK_EVERY_MS)
  }
  return world.workers[0]!
}

/** The statement arrives when the lease of its sender is over, and another worker has the run. */
async function hold(card: FaultCard, statement: RegExp, scene: Scene): Promise<boolean> {
  const { workers } = scene.world
  const held = Promise.race(workers.map((proxy) => proxy.freezeAt(statement).then(() => proxy)))
  const first = await Promise.race([held, scene.wait(HELD_WITHIN_MS).then(() => undefined)])
  for (const other of workers) if (other !== first) other.thaw()
  if (first === undefined) return false
  await scene.wait(card.forMs)
  first.thaw()
  return true
}

async function freezeAll({ forMs }: FaultCard, { world, wait }: Scene): Promise<boolean> {
  const bits = await Promise.all([...world.workers, world.starters].map((proxy) => freeze(proxy, forMs, wait)))
  return bits.includes(true)
}

type WorkflowFault = Fault<FaultCard, Scene>

function cuts(of: string, cut: WorkflowFault['run']): [string, WorkflowFault] {
  return [`cut reply of ${of}`, { run: cut, hampers: true }]
}

export const CARRIED_OUT: Readonly<Record<string, WorkflowFault>> = {
  ...strikesAt(['worker', 'starter']),
  'cut connections of a worker': {
    run: async (card, scene) => cutConnections(await workersProxy(card, scene)),
    hampers: true,
  },
  'freeze a worker': {
    run: async (card, scene) => freeze(await workersProxy(card, scene), card.forMs, scene.wait),
    hampers: true,
  },
  ...Object.fromEntries(
    Object.entries(HELD).map(([of, statement]): [string, WorkflowFault] => [
      `hold ${of}`,
      { run: (card, scene) => hold(card, statement, scene), hampers: true, alone: true },
    ]),
  ),
  'cut all connections': {
    run: async (_, { world }) => [...world.workers, world.starters].map(cutConnections).includes(true),
    hampers: true,
  },
  'freeze database': { run: freezeAll, hampers: true, alone: true },
  'crash database': { run: (_, { world }) => world.crash().then(() => true), hampers: true, alone: true },
  ...Object.fromEntries([
    ...Object.entries(WORKERS_REPLIES).map(([of, statement]) =>
      cuts(of, async (card, scene) =>
        cutReply(await workersProxy(card, scene), statement, scene.wait, STATEMENT_WITHIN_MS),
      ),
    ),
    ...Object.entries(STARTERS_REPLIES).map(([of, statement]) =>
      cuts(of, (_, { world, wait }) => cutReply(world.starters, statement, wait, STATEMENT_WITHIN_MS)),
    ),
  ]),
}
