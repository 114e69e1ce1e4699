/** The story act by act, and its text. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Crew, Mode, WorkerProcess } from './crew.ts'
import type { Claim } from './messages.ts'
import { ALL_ORDERS, BEAT_MS, BROKEN_ORDER, CONCURRENCY, LEASE, ORDERS } from './scale.ts'
import { and, type Screen } from './screen.ts'
import type { Sent, Shop } from './shop.ts'

export interface Stage {
  readonly shop: Shop
  readonly crew: Crew
  readonly screen: Screen
  readonly mode: Mode
  /** Aborted when the demo has to end. */
  readonly signal: AbortSignal
}

export async function tellStory(stage: Stage): Promise<void> {
  const over = new AbortController()
  await Promise.all([watch(stage, over.signal), acts(stage).finally(() => over.abort())])
  stage.screen.progress(await stage.shop.counts(), ALL_ORDERS)
}

async function acts(stage: Stage): Promise<void> {
  const { shop, crew, screen, signal } = stage
  const [, second, third] = await Promise.all([crew.hire(), crew.hire(), crew.hire()])
  screen.say(`Three workers are up, ${CONCURRENCY} receipts at a time each. The shop opens.`)
  await shop.takeOrders(ORDERS.calm)
  await Promise.all([shop.takeOrders(ORDERS.killed), killed(stage, second)])
  await shop.takeOrders(ORDERS.calm)
  await Promise.all([shop.takeOrders(ORDERS.paused), paused(stage, third)])
  await shop.takeOrders(ORDERS.calm - 1)
  await unheard(stage)
  await sleep(BEAT_MS)
  screen.say(`All ${ALL_ORDERS} orders are paid.`)
  await shop.untilDrained(signal)
  await crew.stop()
  screen.say('Nothing is left to do. The workers got SIGTERM and are gone.')
}

async function killed({ shop, crew, screen, signal }: Stage, worker: WorkerProcess): Promise<void> {
  const claims = await worker.holdUp(CONCURRENCY)
  await shop.noteIncident('killed', claims)
  await worker.end('SIGKILL')
  screen.say(
    `kill -9: ${worker.name} died in the middle of the receipts for ${listed(claims)}. Its lease ends within ${LEASE}.`,
    'red',
  )
  const replaced = crew.hire().then(({ name }) => screen.say(`Started in its place: ${name}.`))
  const sent = await shop.untilTakenOver('killed', signal)
  screen.say(`The lease has ended: ${workersOf(sent)} took the ${sent.length} over and sent them.`, 'green')
  await replaced
}

async function paused({ shop, screen, mode, signal }: Stage, worker: WorkerProcess): Promise<void> {
  const claims = await worker.holdUp(CONCURRENCY)
  await shop.noteIncident('paused', claims)
  await worker.pause()
  screen.say(
    `SIGSTOP: ${worker.name} stands still in the middle of the receipts for ${listed(claims)}. It does not know that.`,
    'yellow',
  )
  const sent = await shop.untilTakenOver('paused', signal)
  screen.say(`Its lease has ended: ${workersOf(sent)} took the ${sent.length} over and sent them.`, 'green')
  await sleep(BEAT_MS)
  screen.say(`SIGCONT: ${worker.name} wakes up and sends its ${claims.length} receipts, too late …`, 'yellow')
  const endings = await worker.wake()
  const refused = endings.filter((ending) => ending === 'refused').length
  const late = claims.find(({ orderId }) => orderId === sent[0]!.orderId)!
  if (mode === 'fenced') {
    screen.say(
      `… ${refused} of ${claims.length} refused: order ${late.orderId} was claimed again ` +
        `${(sent[0]!.generation - late.generation) / 1000} s later, so its claim is stale. ` +
        'Its transaction was rolled back, and the receipt with it.',
      'green',
    )
  } else {
    screen.say(`… and nobody stops it: ${endings.length - refused} customers got a second receipt.`, 'red')
  }
}

async function unheard({ shop, screen }: Stage): Promise<void> {
  const { orderId, outcome } = await shop.takeOrderUnheard()
  screen.say(
    `The reply to a COMMIT was lost: is order ${orderId} paid? The API does it all again, and enqueue answers ` +
      `"${outcome}": one job, one receipt.`,
    'green',
  )
}

/** Shows where the jobs are until stopped. */
async function watch({ shop, screen }: Stage, signal: AbortSignal): Promise<void> {
  let toldOfDeadLetter = false
  while (!signal.aborted) {
    const counts = await shop.counts()
    screen.progress(counts, ALL_ORDERS)
    if (counts.deadLetters > 0 && !toldOfDeadLetter) {
      toldOfDeadLetter = true
      screen.say(
        `Order ${BROKEN_ORDER} has an address that cannot be used. Its job is a dead letter, not an endless retry.`,
      )
    }
    await sleep(100, undefined, { signal }).catch(() => {})
  }
}

function listed(claims: readonly Claim[]): string {
  return `orders ${and(claims.map(({ orderId }) => String(orderId)))}`
}

function workersOf(sent: readonly Sent[]): string {
  return and([...new Set(sent.map(({ worker }) => worker))].sort())
}
