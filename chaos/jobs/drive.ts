/** Runs a plan: processes work and faults happen; then calm, until nothing moves any more; then all processes leave. */
import { setMaxListeners } from 'node:events'
import fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DriveOptions } from '../common/command.ts'
import { Crew, type Post } from '../common/crew.ts'
import { Striker } from '../common/striker.ts'
import { unless } from '../common/unless.ts'
import { type Line, noteStalls, readWitness } from '../common/witness.ts'
import { gather, type Rows } from './evidence.ts'
import type { FaultCard } from './faults/deck.ts'
import type { Role, Scene } from './faults/scene.ts'
import { CARRIED_OUT } from './faults/strike.ts'
import { CLOSES_CLAIM_OF_LOST_COMPLETION, PUT_CLAIMS_BACK } from './known.ts'
import type { Plan } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import type { Orders } from './programs/process.ts'
import { createWorld, sessions, type World } from './world.ts'

export const LEASE_MS = 2_000
export const SWEEP_MS = 500

export interface Evidence {
  readonly lines: readonly Line[]
  readonly rows: Rows
  readonly directory: string
}

/** Of a run that is over. */
export function evidenceIn(directory: string): Evidence & { readonly plan: Plan } {
  const read = (name: string) => JSON.parse(fs.readFileSync(join(directory, name), 'utf8'))
  return { plan: read('plan.json'), rows: read('rows.json'), lines: readWitness(directory), directory }
}

const SETTLE_MS = 120_000
/** Idle clients of a pool leave after a second. */
const POOLS_SHRINK_MS = 2_500
/** Then it is killed, and a rule reports it. */
const LEAVES_WITHIN_MS = 40_000
const REPEAT_MS = 150
const LOOK_EVERY_MS = 200
const QUIET_LOOKS = 4
/** Postgres takes a moment to notice that a client has left. */
const GONE_LOOKS = 100

const SEATS: readonly Role[] = ['worker', 'worker', 'worker', 'worker', 'hand', 'producer', 'producer']
/** Through PgBouncer, where there is one. */
const POOLED = [3, 6]

export async function drive(plan: Plan, options: DriveOptions = {}): Promise<Evidence> {
  const { plant, settleMs = SETTLE_MS, say = () => {} } = options
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])])
  setMaxListeners(0, signal)
  const world = await createWorld({ standby: plan.faults.some(({ fault }) => fault === 'failover') })
  let crew: Crew | undefined
  const names = new Map<number, string>()
  const nameOf = (process: number) => names.get(process)!
  let striker: Striker<FaultCard, Scene> | undefined
  let stopNoting = () => {}
  try {
    const { witness, directory } = world
    const bug = plant === undefined ? undefined : PLANTS[plant]!
    if (bug?.sql !== undefined) await world.admin.query(bug.sql)
    if (bug?.sql !== undefined || bug?.repeated !== undefined) witness.write('planted')
    const planFile = join(directory, 'plan.json')
    fs.writeFileSync(planFile, JSON.stringify(plan))
    stopNoting = noteStalls(witness)
    if (world.pooledUrl === undefined) say('There is no PgBouncer: all processes connect directly.')
    const startFile = join(directory, 'start')
    crew = new Crew(posts(world, names, { plan: planFile, startFile, plant }), (process, end) =>
      witness.write('end', {
        who: nameOf(process),
        struck: end.struck,
        code: end.code,
        signal: end.signal,
        tookMs: end.tookMs,
        stderr: end.stderr.slice(-2_000),
      }),
    )
    await crew.ready()
    signal.throwIfAborted()
    witness.write('sessions', { when: 'before', count: await sessions(world) })
    say(`${SEATS.length} processes are at work.`)
    const startedAt = Date.now()
    // Under another name first, so that it is never read half written.
    fs.writeFileSync(`${startFile}.new`, String(startedAt))
    fs.renameSync(`${startFile}.new`, startFile)
    striker = new Striker(CARRIED_OUT, sceneOf(world, crew, nameOf, signal))
    if (bug?.repeated !== undefined) void repeat(world, bug.repeated, over.signal)
    for (const card of plan.faults) {
      await unless(signal, startedAt + card.atMs - Date.now())
      signal.throwIfAborted()
      striker.strike(card)
    }
    await unless(signal, startedAt + plan.durationMs - Date.now())
    signal.throwIfAborted()
    await striker.over()
    say(`${plan.faults.length} faults are over.`)
    const left = await settle(world, crew, settleMs, signal)
    say(left.length === 0 ? 'All is quiet.' : `After ${settleMs / 1_000} s there is left: ${left.join(', ')}.`)
    for (const what of left) witness.write('stuck', { what })
    await crew.calm()
    await unless(signal, POOLS_SHRINK_MS)
    witness.write('sessions', { when: 'calm', count: await sessions(world) })
    await Promise.race([crew.stop(), unless(signal, LEAVES_WITHIN_MS)])
    signal.throwIfAborted()
    await crew.kill()
    await world.stopPooler()
    witness.write('sessions', { when: 'after', count: await sessionsLeft(world) })
    say('All processes have left.')
    const rows = await gather(world.admin)
    fs.writeFileSync(join(directory, 'rows.json'), JSON.stringify(rows))
    return { lines: readWitness(directory), rows, directory }
  } finally {
    over.abort()
    // The faults under way end early, and undo what they did.
    await striker?.over()
    await crew?.kill()
    stopNoting()
    await world.stop()
    if (options.signal?.aborted) fs.rmSync(world.directory, { recursive: true })
  }
}

function posts(
  { url, pooledUrl, directory }: World,
  names: Map<number, string>,
  rest: Pick<Orders, 'plan' | 'startFile'> & { plant: string | undefined },
): Post[] {
  let producers = 0
  return SEATS.map((role, seat) => {
    const pooled = POOLED.includes(seat) && pooledUrl !== undefined
    const producer = role === 'producer' ? producers++ : undefined
    const orders = (process: number): Orders => {
      const name = `${role}-${seat}.${process}`
      names.set(process, name)
      return {
        ...rest,
        name,
        url: pooled ? pooledUrl : url,
        pooled,
        directory,
        leaseMs: LEASE_MS,
        sweepMs: SWEEP_MS,
        ...(producer === undefined ? {} : { producer }),
      } as Orders
    }
    const program = fileURLToPath(new URL(`programs/${role}.ts`, import.meta.url))
    return { program, orders, flags: ['--expose-gc'] }
  })
}

function sceneOf(world: World, crew: Crew, nameOf: Scene['nameOf'], signal: AbortSignal): Scene {
  const { witness } = world
  const seatsOf = (role: Role) => SEATS.flatMap((each, seat) => (each === role ? [seat] : []))
  return {
    world,
    crew,
    witness,
    signal,
    seats: { worker: seatsOf('worker'), hand: seatsOf('hand'), producer: seatsOf('producer') },
    nameOf,
    struck: ({ process, pid }, sent) => witness.write('struck', { who: nameOf(process), pid, signal: sent }),
    heldBy: async () => {
      const { rows } = await world.admin.query(
        `select claimed_by_label as name, count(*)::int as jobs from leasehold.jobs where status = 'processing' group by 1`,
      )
      return new Map(rows.map(({ name, jobs }) => [name, jobs]))
    },
    paused: new Set(),
    wait: (ms) => unless(signal, ms),
  }
}

/** Returns what is left when the time is over. */
async function settle(world: World, crew: Crew, withinMs: number, signal: AbortSignal): Promise<string[]> {
  const producers = SEATS.flatMap((role, seat) => (role === 'producer' ? [seat] : []))
  const deadline = performance.now() + withinMs
  for (let quiet = 0; ; ) {
    if (CLOSES_CLAIM_OF_LOST_COMPLETION) await putClaimsBack(world)
    const { rows } = await world.admin.query(`
      select kind, status::text, label, count(*)::int from leasehold.jobs where status in ('pending', 'processing')
      group by 1, 2, 3`)
    const left = rows.map(({ kind, status, label, count }) => `${count} ${kind} ${status} ${label ?? ''}`.trim())
    for (const seat of producers) if (!crew.hasSaid(seat, 'done')) left.push(`a producer on seat ${seat}`)
    quiet = left.length === 0 ? quiet + 1 : 0
    if (quiet === QUIET_LOOKS || performance.now() > deadline) return left
    await unless(signal, LOOK_EVERY_MS)
    signal.throwIfAborted()
  }
}

async function repeat(world: World, sql: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await world.admin.query(sql).catch(() => {})
    await unless(signal, REPEAT_MS)
  }
}

async function putClaimsBack({ admin, witness }: World): Promise<void> {
  const { rows } = await admin.query(PUT_CLAIMS_BACK)
  for (const { id, jobs } of rows) witness.write('repaired', { claim: id, jobs })
}

async function sessionsLeft(world: World): Promise<number> {
  for (let look = 0; ; look++) {
    const left = await sessions(world)
    if (left === 0 || look === GONE_LOOKS) return left
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
