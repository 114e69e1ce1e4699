/** The cards of the deck, and what carries each out. */
import type { FaultyProxy } from '../../tools/faulty-proxy.ts'
import type { FaultCard } from '../common/deck.ts'
import type { Scene as CommonScene } from '../common/drive.ts'
import { cutConnections, cutReply, freeze } from '../common/network-faults.ts'
import { LOOK_EVERY_MS, LOOKS, strikesAt } from '../common/strike.ts'
import type { Fault } from '../common/striker.ts'
import { CUT_REPLIES, DAY_PASSES } from './plan.ts'
import type { World } from './world.ts'

export type Role = 'relay' | 'consumer' | 'producer'

/** The parts that faults can reach. */
export type Scene = CommonScene<World, Role>

/** Receivers may stand still for long after the broker was away. */
const STATEMENT_WITHIN_MS = 25_000

/** kill -9; it comes back at the same port, with what it had written. */
async function killBroker({ forMs }: FaultCard, { world: { natsServer }, wait }: Scene): Promise<boolean> {
  await natsServer.kill()
  await wait(forMs)
  await natsServer.start()
  return true
}

/** What the broker stores meanwhile is stored, and its senders do not learn it. */
async function loseAcknowledgements({ forMs }: FaultCard, { world: { broker }, wait }: Scene): Promise<boolean> {
  broker.delayReplies(2 * forMs)
  await wait(forMs)
  const bit = broker.delayed > 0
  broker.cut()
  broker.delayReplies(0)
  return bit
}

/** There are none for a moment after the broker or the database was away. */
async function cutOpenConnections(proxy: FaultyProxy, wait: Scene['wait']): Promise<boolean> {
  for (let look = 0; look < LOOKS && proxy.connections === 0; look++) await wait(LOOK_EVERY_MS)
  return cutConnections(proxy)
}

type OutboxFault = Fault<FaultCard, Scene>

export const CARRIED_OUT: Readonly<Record<string, OutboxFault>> = {
  ...strikesAt(['relay', 'consumer', 'producer']),
  'SIGKILL broker': { run: killBroker, alone: true },
  'cut broker connections': { run: (_, { world, wait }) => cutOpenConnections(world.broker, wait) },
  'lose acknowledgements': { run: loseAcknowledgements, alone: true },
  'freeze broker': { run: ({ forMs }, { world, wait }) => freeze(world.broker, forMs, wait), alone: true },
  'cut database connections': {
    run: (_, { world, wait }) => cutOpenConnections(world.database, wait),
    hampers: true,
  },
  'freeze database': {
    run: ({ forMs }, { world, wait }) => freeze(world.database, forMs, wait),
    hampers: true,
    alone: true,
  },
  'crash database': { run: (_, { world }) => world.crashDatabase().then(() => true), hampers: true, alone: true },
  ...Object.fromEntries(
    Object.entries(CUT_REPLIES).map(([of, statement]): [string, OutboxFault] => [
      `cut reply of ${of}`,
      { run: (_, { world, wait }) => cutReply(world.database, statement, wait, STATEMENT_WITHIN_MS), hampers: true },
    ]),
  ),
  [DAY_PASSES]: { run: (_, { world }) => world.passDay().then(() => true), alone: true },
}
