/** The story act by act, and its text. The mishaps are the same with and without protection. */
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../program.ts'
import { and, type Screen } from '../screen.ts'
import type { Crew, WorkerProcess } from './crew.ts'
import { BEAT_MS, CONCURRENCY, LEASE, LOST_ORDER, ORDERS, ordersOf, SHIPPED_EARLY, type Version } from './scale.ts'
import type { Services } from './services.ts'
import type { Shop } from './shop.ts'

export interface Stage {
  readonly shop: Shop
  readonly services: Services
  readonly crew: Crew
  readonly screen: Screen
  /** One plain job instead of a workflow. */
  readonly isUnprotected: boolean
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}

/** What happened, for the verdict. */
export interface Told {
  readonly duplicates: number
  readonly lateSignals: number
}

type Workers = Readonly<Record<Version, WorkerProcess>>

const shippable = ordersOf(1).filter((order) => order !== LOST_ORDER)
const early = shippable.slice(0, SHIPPED_EARLY)

export async function tellStory(stage: Stage): Promise<Told> {
  const { crew, screen, signal } = stage
  const beat = async () => {
    await sleep(BEAT_MS, undefined, { signal })
    screen.print('')
  }
  stage.services.hold('refund') // For the last act.
  const first = await crew.hire(1)
  screen.say('PostgreSQL, the services and one worker of version 1 are up.')
  await beat()
  const second = await killedWhileCharging(stage, first)
  await beat()
  const duringNight = await nightWithoutWorkers(stage, second)
  await beat()
  const { workers, duplicates: afterDeploy } = await deploy(stage)
  await beat()
  const lateSignals = await neverShipped(stage, workers)
  await crew.stop()
  screen.print('')
  screen.say('Every order has ended. All workers got SIGTERM and are gone.')
  screen.print('')
  return { duplicates: duringNight + afterDeploy, lateSignals }
}

/** Returns the worker that went on. */
async function killedWhileCharging(stage: Stage, first: WorkerProcess): Promise<WorkerProcess> {
  const { shop, services, crew, screen, isUnprotected, signal } = stage
  screen.say(
    `Act 1, the bank: ${ORDERS[1]} orders are placed. Each is one commit with its ${isUnprotected ? 'job' : 'run'}.`,
    'bold',
  )
  services.hold('charge')
  for (const order of ordersOf(1)) await shop.place(order, 1)
  const inFlight = isUnprotected ? ORDERS[1] : CONCURRENCY
  await until(() => services.heldBy('charge') === inFlight, signal)
  await first.end('SIGKILL')
  services.callersAreDead()
  services.answerAgain('charge')
  screen.say(
    `kill -9: ${first.name}, in the middle of ${inFlight} charges. The bank has charged, and its answers are lost.`,
    'red',
  )
  const second = await crew.hire(1)
  await until(() => receipts(services, ordersOf(1)), signal)
  // The lost order may have lost its patience by now, on a slow machine.
  if (!isUnprotected) await until(async () => (await shop.count('waiting')) >= ORDERS[1] - 1, signal)
  screen.say(`${second.name} takes over when the lease of ${LEASE} has expired.`)
  if (isUnprotected) screen.say('It starts each order at the top, and charges it a second time.')
  else {
    const repeated = `${services.repeated} charges are repeated under the same key, so the bank does nothing twice.`
    screen.say(`Right: no step on record is repeated. ${repeated}`, 'green')
  }
  return second
}

/** Returns how many announcements were dropped. */
async function nightWithoutWorkers(stage: Stage, second: WorkerProcess): Promise<number> {
  const { shop, services, screen, isUnprotected, signal } = stage
  screen.say('Act 2, the night: every order waits for its shipment, or for the end of its patience.', 'bold')
  await second.end('SIGKILL')
  services.callersAreDead()
  await until(async () => (await shop.sessions()) === 0, signal)
  const held = isUnprotected
    ? 'It held all of them.'
    : `${await shop.count('waiting')} runs wait as rows, without process, timer or connection.`
  screen.say(`kill -9: ${second.name}, the only worker. ${held}`, 'red')
  const { announced, duplicates } = await shop.ship(early)
  const dropped = isUnprotected ? '' : ` The second signal of each is dropped: ${duplicates} duplicates.`
  screen.say(`The warehouse ships ${announced} orders meanwhile, and announces each twice.${dropped}`)
  return duplicates
}

/** Returns the workers of both versions, and how many announcements were dropped. */
async function deploy(stage: Stage): Promise<{ workers: Workers; duplicates: number }> {
  const { shop, services, crew, screen, isUnprotected, signal } = stage
  const change = isUnprotected ? 'two workers are started.' : 'version 2 has a fraud check before the charge.'
  screen.say(`Act 3, the deploy: ${change}`, 'bold')
  const newWorker = await crew.hire(2)
  for (const order of ordersOf(2)) await shop.place(order, 2)
  await until(() => receipts(services, ordersOf(2)), signal)
  if (!isUnprotected) {
    await until(async () => (await shop.count('pending', 1)) >= early.length, signal)
    screen.say(
      `${newWorker.name} knows version 2 only, and takes ${ORDERS[2]} new orders. It leaves the ${early.length} runs of version 1 alone that have their signal.`,
    )
  }
  const oldWorker = await crew.hire(1)
  await until(() => early.every((order) => services.times('notify', order) > 0), signal)
  if (!isUnprotected) screen.say(`${oldWorker.name} knows version 1, and finishes them. A run keeps its version.`)
  const later = [...shippable.filter((order) => !early.includes(order)), ...ordersOf(2)]
  const { duplicates } = await shop.ship(later)
  await until(() => [...early, ...later].every((order) => services.times('notify', order) > 0), signal)
  screen.say(`The other ${later.length} orders are shipped, and their customers notified.`)
  return { workers: { 1: oldWorker, 2: newWorker }, duplicates }
}

/** Returns how many signals came after the end and were refused. */
async function neverShipped(stage: Stage, workers: Workers): Promise<number> {
  const { shop, services, crew, screen, isUnprotected, signal } = stage
  screen.say(
    `Act 4, the lost parcel: order ${LOST_ORDER} is never shipped. Its patience ends, and it is undone.`,
    'bold',
  )
  await until(() => services.heldBy('refund') > 0, signal)
  // A plain job may be in either of them.
  const killed = isUnprotected ? [workers[1], workers[2]] : [workers[1]]
  for (const worker of killed) await worker.end('SIGKILL')
  services.callersAreDead()
  services.answerAgain('refund')
  screen.say(
    `kill -9: ${and(killed.map(({ name }) => name))}, in the middle of the refund. The bank has refunded, and its answer is lost.`,
    'red',
  )
  const last = await crew.hire(1)
  await until(async () => (await shop.ended()) === ORDERS[1] + ORDERS[2], signal)
  if (isUnprotected) {
    screen.say(`${last.name} starts order ${LOST_ORDER} at the top: it charges once more, and refunds once more.`)
    return 0
  }
  screen.say(
    `Right: ${last.name} goes on with the refund, under the same key, and then releases the goods: in reverse order.`,
    'green',
  )
  const answer = await shop.shipLate(LOST_ORDER)
  screen.say(
    `The parcel turns up after all. Its signal comes too late, and the warehouse gets RUN_FINISHED: ${answer}.`,
  )
  return answer === 'refused' ? 1 : 0
}

function receipts(services: Services, orders: readonly number[]): boolean {
  return orders.every((order) => services.times('receipt', order) > 0)
}
