/** The cards of the deck, and what carries each out. */

import type { FaultCard } from '../../common/deck.ts'
import { cutConnections, cutReply, delayReplies, freeze, refuse } from '../../common/network-faults.ts'
import type { Fault } from '../../common/striker.ts'
import { CUT_REPLIES } from './deck.ts'
import { cancelSome, pauseOne, redriveSome } from './operator.ts'
import { kill, killProducer, rollingRestart, stop, terminate } from './process.ts'
import type { Scene } from './scene.ts'
import { crash, exhaustConnections, failOver, holdSnapshot, lockTable, readOnly, terminateBackends } from './server.ts'

export const CARRIED_OUT: Readonly<Record<string, Fault<FaultCard, Scene>>> = {
  'SIGKILL worker': { run: (card, scene) => kill(card, scene, 'worker') },
  'SIGKILL hand': { run: (card, scene) => kill(card, scene, 'hand') },
  'SIGKILL producer': { run: killProducer },
  'SIGSTOP worker': { run: stop },
  'SIGTERM worker': { run: terminate },
  'rolling restart': { run: rollingRestart },
  'cut connections': { run: async (_, { world }) => cutConnections(world.proxy), hampers: true },
  freeze: { run: ({ forMs }, { world, wait }) => freeze(world.proxy, forMs, wait), hampers: true, alone: true },
  refuse: { run: ({ forMs }, { world, wait }) => refuse(world.proxy, forMs, wait), hampers: true, alone: true },
  'delay replies': {
    run: ({ pick, forMs }, { world, wait }) => delayReplies(world.proxy, 50 + pick * 450, forMs, wait),
    hampers: true,
    alone: true,
  },
  ...Object.fromEntries(
    Object.entries(CUT_REPLIES).map(([of, statement]) => [
      `cut reply of ${of}`,
      { run: (_: FaultCard, { world, wait }: Scene) => cutReply(world.proxy, statement, wait), hampers: true },
    ]),
  ),
  'terminate backends': { run: terminateBackends, hampers: true },
  crash: { run: crash, hampers: true, alone: true },
  failover: { run: failOver, hampers: true, alone: true },
  'lock table briefly': { run: lockTable, hampers: true, alone: true },
  'lock table for long': { run: lockTable, hampers: true, alone: true },
  'read only': { run: readOnly, hampers: true, alone: true },
  'no connection left': { run: exhaustConnections, hampers: true, alone: true },
  'hold a snapshot': { run: holdSnapshot },
  pause: { run: pauseOne },
  cancel: { run: cancelSome },
  redrive: { run: redriveSome },
}
