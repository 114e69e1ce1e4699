/** Runs a plan: the crew works, the producer sends, faults happen; then calm, until nothing moves any more. */
import { setMaxListeners } from 'node:events'
import { fileURLToPath } from 'node:url'
import { count } from '../common/counts.ts'
import { Crew } from '../common/crew.ts'
import { unless } from '../common/unless.ts'
import { type Evidence, gather, whatIsLeft } from './evidence.ts'
import { CUT_REPLIES, type Plan, SEATS, type Strike } from './plan.ts'
import { Producer } from './producer.ts'
import type { Orders } from './program.ts'
import { createWorld, type World } from './world.ts'

export interface DriveOptions {
  /** Of a database of its own, which need not be migrated. */
  readonly url: string
  readonly broken?: boolean
  /** For everything to come to its end, once it is calm. */
  readonly settleMs?: number
  readonly say?: (line: string) => void
  readonly signal?: AbortSignal
}

const PROGRAM = fileURLToPath(new URL('program.ts', import.meta.url))
const SETTLE_MS = 120_000
const LOOK_EVERY_MS = 200
/** Re-published rows are found by then. */
const QUIET_LOOKS = 5

export async function drive(plan: Plan, options: DriveOptions): Promise<Evidence> {
  const { url, broken = false, settleMs = SETTLE_MS, say = () => {} } = options
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])])
  setMaxListeners(0, signal) // One per waiting entry.
  const world = await createWorld(plan, url)
  const { queues, poisonUrl, provider, faulty } = world
  const orders = (process: number): Orders => ({
    url: world.url,
    sqs: { ...faulty.config, maxAttempts: plan.sdkAttemptsOf(process) },
    queues,
    poisonUrl,
    provider: provider.url,
    seed: plan.seed,
    visibility: plan.visibilityOf(process),
    broken,
    calm: false,
  })
  const crew = new Crew(Array.from({ length: SEATS }, () => ({ program: PROGRAM, orders })))
  try {
    await crew.ready()
    say(`${SEATS} processes are at work.`)
    const counts = new Map<string, number>()
    const producer = new Producer(world, plan)
    const startedAt = performance.now()
    await Promise.all([producer.run(startedAt, signal), strikeAll(plan, { world, crew, startedAt, signal, counts })])
    say(`${plan.messages.length} messages are sent, and from now on nothing breaks.`)
    world.calm()
    await crew.calm()
    const left = await settle(world, settleMs, signal)
    say(left.length === 0 ? 'All is quiet.' : `After ${settleMs / 1_000} s there is left: ${left.join(', ')}.`)
    await crew.stop()
    say('Everybody has left.')
    countAll(counts, world, crew, producer)
    return await gather(world, crew, left, counts)
  } finally {
    over.abort()
    await crew.kill()
    await world.stop()
  }
}

interface Scene {
  readonly world: World
  readonly crew: Crew
  readonly startedAt: number
  readonly signal: AbortSignal
  readonly counts: Map<string, number>
}

async function strikeAll({ strikes, durationMs }: Plan, scene: Scene): Promise<void> {
  for (const strike of strikes) {
    await unless(scene.signal, scene.startedAt + strike.atMs - performance.now())
    scene.signal.throwIfAborted()
    await carryOut(strike, scene)
  }
  await unless(scene.signal, scene.startedAt + durationMs - performance.now())
  scene.signal.throwIfAborted()
}

async function carryOut(strike: Strike, { world: { database }, crew, counts }: Scene): Promise<void> {
  switch (strike.what) {
    case 'SIGKILL':
    case 'SIGTERM':
      if (!(await crew.strike(strike.seat, strike.what))) return
      break
    case 'SIGSTOP':
      if (!(await crew.strike(strike.seat, strike.what, { forMs: strike.forMs }))) return
      break
    case 'cut reply': {
      const { of } = strike
      void database.cutReplies(CUT_REPLIES[of]).then(() => count(counts, `reply cut: ${of}`))
      return
    }
    case 'cut connections':
      database.cut()
      break
    case 'freeze':
      database.freeze()
      setTimeout(() => database.thaw(), strike.forMs)
      break
    case 'refuse':
      database.refuse()
      database.cut()
      setTimeout(() => database.accept(), strike.forMs)
  }
  count(counts, `strike: ${strike.what}`)
}

/** Returns what is left when the time is over. */
async function settle(world: World, withinMs: number, signal: AbortSignal): Promise<string[]> {
  const deadline = performance.now() + withinMs
  for (let quiet = 0; ; ) {
    const left = await whatIsLeft(world)
    quiet = left.length === 0 ? quiet + 1 : 0
    if (quiet === QUIET_LOOKS || performance.now() > deadline) return left
    await unless(signal, LOOK_EVERY_MS)
    signal.throwIfAborted()
  }
}

function countAll(counts: Map<string, number>, { faulty, provider }: World, crew: Crew, producer: Producer): void {
  for (const [fault, times] of Object.entries(faulty.happened)) count(counts, `SQS: ${fault}`, times)
  for (const { event, ...details } of crew.lines()) {
    if (event === 'ready') continue
    if (event === 'chore') {
      for (const [what, times] of Object.entries(details)) count(counts, `recovery: ${what}`, Number(times))
      continue
    }
    count(counts, `message: ${event === 'returned' ? `returned: ${details.reason}` : event}`)
    const deliveries = Number(details.receiveCount ?? 0)
    counts.set('most deliveries', Math.max(counts.get('most deliveries') ?? 0, deliveries))
  }
  count(counts, 'processes', crew.started)
  count(counts, 'publisher gave up', producer.gaveUp)
  count(counts, 'witness: calls', provider.calls.length)
  count(counts, 'witness: effects', provider.happened())
}
