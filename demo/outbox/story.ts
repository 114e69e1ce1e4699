/** The story act by act, and its text. The mishaps are the same with and without protection. */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../program.ts'
import type { Screen } from '../screen.ts'
import type { Brokers } from './brokers.ts'
import type { Crew, Hand } from './crew.ts'
import type { Databases } from './databases.ts'
import { ACTS, BEAT_MS, LEASE, VISIBILITY } from './scale.ts'

export interface Stage {
  readonly brokers: Brokers
  readonly databases: Databases
  readonly crew: Crew
  readonly screen: Screen
  /** The protection is left out, to show its use. */
  readonly isUnprotected: boolean
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}

/** Numbers of the orders of each act. */
const FIRST = { till: 1, relay: 1 + ACTS.till, receivers: 1 + ACTS.till + ACTS.relay, brokers: 0 }
FIRST.brokers = FIRST.receivers + ACTS.receivers

export async function tellStory(stage: Stage): Promise<void> {
  const { crew, screen, signal, isUnprotected } = stage
  const beat = async () => {
    await sleep(BEAT_MS, undefined, { signal })
    screen.print('')
  }
  const [till, relay, billing, shipping] = await Promise.all([
    crew.hire('till'),
    isUnprotected ? undefined : crew.hire('relay'),
    crew.hire('billing'),
    crew.hire('shipping'),
  ])
  screen.say('PostgreSQL, SQS, NATS and one process of each kind are up.')
  await beat()
  const second = await tillDies(stage, till)
  await settled(stage)
  await beat()
  await (relay === undefined ? replyIsLost(stage, second) : relayDies(stage, second, relay))
  await settled(stage)
  await beat()
  await receiversDie(stage, second, billing, shipping)
  await settled(stage)
  await beat()
  await brokersDie(stage, second)
  await settled(stage)
  await crew.stop()
  screen.print('')
  screen.say('Nothing is on its way any more. All processes got SIGTERM and are gone.')
  screen.print('')
}

/** Returns its successor. */
async function tillDies({ crew, databases, screen, isUnprotected, signal }: Stage, till: Hand): Promise<Hand> {
  const [first, last] = rangeOf('till')
  screen.say(`Act 1, the till: it pays ${ACTS.till} orders.`, 'bold')
  const half = first + ACTS.till / 2
  await till.pay(first, half - 1, signal)
  till.send({ type: 'hold' })
  till.send({ type: 'pay', first: half, last })
  await till.holds(1, signal)
  const [[at, payments]] = [...till.held] as [[string, number]]
  await till.end('SIGKILL')
  const paid = (await databases.paid()) - (half - first)
  screen.say(`kill -9: ${till.name} died in the middle of ${payments} payments, ${at}.`, 'red')
  if (isUnprotected) screen.say(`Damage: ${paid} orders are paid, and no message about them was sent.`, 'red')
  else {
    const events = (await databases.published()) - (half - first)
    const isRight = paid === 0 && events === 0
    const found = `of these, ${paid} orders are paid and ${events} events exist. They were one transaction.`
    screen.say(isRight ? `Right: ${found}` : `Wrong: ${found}`, isRight ? 'green' : 'red')
  }
  const second = await crew.hire('till')
  await second.pay(first, last, signal)
  screen.say(`${second.name} pays those of the ${ACTS.till} orders that are not paid.`)
  return second
}

async function relayDies({ crew, databases, screen, signal }: Stage, till: Hand, relay: Hand): Promise<void> {
  screen.say(`Act 2, the relay: ${ACTS.relay} more orders.`, 'bold')
  relay.send({ type: 'hold' })
  await till.pay(...rangeOf('relay'), signal)
  await relay.holds(2, signal)
  await relay.end('SIGKILL')
  const [sqs, nats] = [relay.held.get('SQS') ?? 0, relay.held.get('NATS') ?? 0]
  const what = `SQS had acknowledged ${sqs} events and NATS ${nats}, and it had recorded none of that`
  screen.say(`kill -9: ${relay.name} died when ${what}.`, 'red')
  await Promise.all([crew.hire('relay'), crew.hire('relay')])
  await until(async () => Object.values(await databases.unsent()).every((unsent) => unsent === 0), signal)
  screen.say(
    `Right: after ${LEASE} two new relays sent all of them again, with the same ids. NATS dropped its copies by id. ` +
      'SQS delivered both, and the inbox dropped the second.',
    'green',
  )
}

async function replyIsLost({ screen, signal }: Stage, till: Hand): Promise<void> {
  screen.say(`Act 2, a lost reply: ${ACTS.relay} more orders.`, 'bold')
  till.send({ type: 'lose a reply' })
  await till.pay(...rangeOf('relay'), signal)
  screen.say('Lost: the reply to a message did not arrive, so the till sent it again, under another id.', 'red')
}

async function receiversDie(stage: Stage, till: Hand, billing: Hand, shipping: Hand): Promise<void> {
  const { brokers, crew, databases, screen, isUnprotected, signal } = stage
  screen.say(`Act 3, the receivers: ${ACTS.receivers} more orders.`, 'bold')
  const before = await damages(databases)
  for (const receiver of [billing, shipping]) receiver.send({ type: 'hold' })
  await till.pay(...rangeOf('receivers'), signal)
  await Promise.all([billing.holds(1, signal), shipping.holds(1, signal)])
  if (isUnprotected) await until(async () => (await brokers.streamLeft()).held === 0, signal)
  await Promise.all([billing.end('SIGKILL'), shipping.end('SIGKILL')])
  for (const { name, held } of [billing, shipping]) {
    const [[at, messages]] = [...held] as [[string, number]]
    screen.say(`kill -9: ${name} died with ${messages} messages ${at}.`, 'red')
  }
  await Promise.all((['billing', 'billing', 'shipping', 'shipping'] as const).map((role) => crew.hire(role)))
  await settled(stage)
  const after = await damages(databases)
  if (isUnprotected) {
    const [doubled, lost] = [after.doubled - before.doubled, after.lost - before.lost]
    screen.say(
      `Damage: SQS delivered its messages again, and ${doubled} orders have two invoices. NATS did not, since they were ` +
        `acknowledged, and ${lost} orders will never be shipped.`,
      'red',
    )
    return
  }
  screen.say(
    `Right: after ${VISIBILITY} SQS and NATS delivered them again to new receivers. Their inbox had the ids: ` +
      `${after.doubled - before.doubled} second effects.`,
    'green',
  )
}

async function brokersDie({ brokers, databases, screen, isUnprotected, signal }: Stage, till: Hand): Promise<void> {
  screen.say(`Act 4, the brokers: nats-server is killed, SQS refuses connections. ${ACTS.brokers} more orders.`, 'bold')
  await brokers.goAway()
  screen.say('kill -9: nats-server died, and SQS is away.', 'red')
  await till.pay(...rangeOf('brokers'), signal)
  if (isUnprotected) {
    screen.say(`Damage: all ${ACTS.brokers} orders were paid, and every message about them failed.`, 'red')
  } else {
    const { billing, shipping } = await databases.unsent()
    screen.say(`Right: all were paid meanwhile. ${billing} events wait for SQS and ${shipping} for NATS.`, 'green')
  }
  await brokers.comeBack()
  screen.say('Both brokers are back.')
}

/** Resolves when no event waits to be sent, and no message to be received. */
async function settled({ brokers, databases, signal }: Stage): Promise<void> {
  await until(async () => Object.values(await databases.unsent()).every((unsent) => unsent === 0), signal)
  await until(async () => (await brokers.left()) === 0, signal)
}

async function damages(databases: Databases): Promise<{ lost: number; doubled: number }> {
  const [{ doubled }, { lost }] = await Promise.all([databases.damage('billing'), databases.damage('shipping')])
  return { doubled, lost }
}

function rangeOf(act: keyof typeof ACTS): [first: number, last: number] {
  return [FIRST[act], FIRST[act] + ACTS[act] - 1]
}
