/** Runs a plan: processes work and faults happen; then calm, until every run has ended; then all processes leave. */
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
import { CARRIED_OUT, type Role, type Scene } from './faults.ts'
import { type FaultCard, type Plan, STARTERS, WORKERS } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import type { Orders } from './programs/process.ts'
import { settle } from './settle.ts'
import { createWorld, type World } from './world.ts'

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

const LEASE_MS = 2_000
const SWEEP_MS = 500
/** Without any progress. */
const SETTLE_MS = 30_000
/** Then it is killed, and a rule reports it. */
const LEAVES_WITHIN_MS = 40_000

const SEATS: readonly Role[] = [...Array(WORKERS).fill('worker'), ...Array(STARTERS).fill('starter')]
const seatsOf = (role: Role) => SEATS.flatMap((each, seat) => (each === role ? [seat] : []))

export async function drive(plan: Plan, options: DriveOptions = {}): Promise<Evidence> {
  const { plant, settleMs = SETTLE_MS, say = () => {} } = options
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])])
  setMaxListeners(0, signal)
  const world = await createWorld()
  let crew: Crew | undefined
  let striker: Striker<FaultCard, Scene> | undefined
  let stopNoting = () => {}
  const names = new Map<number, string>()
  try {
    const { witness, directory } = world
    const sql = plant === undefined ? undefined : PLANTS[plant]!.sql
    if (sql !== undefined) {
      await world.admin.query(sql)
      witness.write('planted')
    }
    const planFile = join(directory, 'plan.json')
    fs.writeFileSync(planFile, JSON.stringify(plan))
    stopNoting = noteStalls(witness)
    const startFile = join(directory, 'start')
    crew = new Crew(posts(world, names, { plan: planFile, startFile, plant }), (process, end) =>
      witness.write('end', { who: names.get(process), ...end, stderr: end.stderr.slice(-2_000) }),
    )
    await crew.ready()
    signal.throwIfAborted()
    say(`${SEATS.length} processes are at work.`)
    const startedAt = Date.now()
    // Under another name first, so that it is never read half written.
    fs.writeFileSync(`${startFile}.new`, String(startedAt))
    fs.renameSync(`${startFile}.new`, startFile)
    striker = new Striker(CARRIED_OUT, sceneOf(world, crew, names, signal))
    for (const card of plan.faults) {
      await unless(signal, startedAt + card.atMs - Date.now())
      signal.throwIfAborted()
      striker.strike(card)
    }
    await unless(signal, startedAt + plan.durationMs - Date.now())
    signal.throwIfAborted()
    await striker.over()
    world.calm()
    await crew.calm()
    say(`${plan.faults.length} faults are over.`)
    const left = await settle({ world, crew, starters: seatsOf('starter'), withinMs: settleMs, signal })
    say(left.length === 0 ? 'All is quiet.' : `Nothing moves, and there is left: ${left.join(', ')}.`)
    for (const what of left) witness.write('stuck', { what })
    await Promise.race([crew.stop(), unless(signal, LEAVES_WITHIN_MS)])
    signal.throwIfAborted()
    await crew.kill()
    say('All processes have left.')
    const rows = await gather(world)
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
  { url, workers, starters, directory }: World,
  names: Map<number, string>,
  rest: Pick<Orders, 'plan' | 'startFile'> & { readonly plant: string | undefined },
): Post[] {
  return SEATS.map((role, seat) => {
    const starter = seatsOf('starter').indexOf(seat)
    const orders = (process: number): Orders => {
      const name = `${role}-${seat}.${process}`
      names.set(process, name)
      return {
        ...rest,
        name,
        url: (role === 'worker' ? workers[seat]! : starters).url(url),
        directory,
        leaseMs: LEASE_MS,
        sweepMs: SWEEP_MS,
        ...(starter < 0 ? {} : { starter }),
      } as Orders
    }
    return { program: fileURLToPath(new URL(`programs/${role}.ts`, import.meta.url)), orders }
  })
}

function sceneOf(world: World, crew: Crew, names: ReadonlyMap<number, string>, signal: AbortSignal): Scene {
  return {
    world,
    crew,
    witness: world.witness,
    signal,
    seats: { worker: seatsOf('worker'), starter: seatsOf('starter') },
    nameOf: (process) => names.get(process)!,
    wait: (ms) => unless(signal, ms),
  }
}
