/**
 * Runs a plan: processes work and faults happen; then calm, until nothing moves any more; then all processes leave. A stage has what
 * differs from one chaos command to another.
 */
import { setMaxListeners } from 'node:events'
import fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DriveOptions } from './command.ts'
import { Crew, type Post } from './crew.ts'
import { type Fault, Striker } from './striker.ts'
import { unless } from './unless.ts'
import { type Line, noteStalls, readWitness, type Witness } from './witness.ts'

export const LEASE_MS = 2_000
export const SWEEP_MS = 500
/** Then a process is killed, and a rule reports it. */
const LEAVES_WITHIN_MS = 40_000
const REPEAT_MS = 150

export interface Evidence<Rows> {
  readonly lines: readonly Line[]
  readonly rows: Rows
  readonly directory: string
}

/** Of a run that is over. */
export function evidenceIn<Plan, Rows>(directory: string): Evidence<Rows> & { readonly plan: Plan } {
  const read = (name: string) => JSON.parse(fs.readFileSync(join(directory, name), 'utf8'))
  return { plan: read('plan.json'), rows: read('rows.json'), lines: readWitness(directory), directory }
}

/** The configuration of every process. */
export interface Orders {
  readonly name: string
  /** Of the witness files. */
  readonly directory: string
  readonly plan: string
  /** A file that holds the moment from which the plan counts, once it has come. */
  readonly startFile: string
  readonly leaseMs: number
  readonly sweepMs: number
  readonly plant?: string
}

interface DrivenPlan {
  readonly durationMs: number
  readonly faults: readonly { readonly fault: string; readonly atMs: number }[]
}

interface DrivenWorld {
  readonly witness: Witness
  readonly directory: string
  stop(): Promise<void>
}

/** The parts that faults can reach. */
export interface Scene<World, Role extends string> {
  readonly world: World
  readonly crew: Crew
  readonly witness: Witness
  readonly signal: AbortSignal
  readonly seats: Readonly<Record<Role, readonly number[]>>
  nameOf(process: number): string
  /** Ends early when the run does. */
  wait(ms: number): Promise<void>
}

export interface Stage<
  Plan extends DrivenPlan,
  World extends DrivenWorld,
  Role extends string,
  Reach extends Scene<World, Role>,
  Rows,
> {
  readonly seats: readonly Role[]
  /** The file of a role's program, and flags of its Node. */
  readonly programs: (role: Role) => URL
  readonly flags?: readonly string[]
  readonly faults: Readonly<Record<string, Fault<Plan['faults'][number], Reach>>>
  /** Bugs that SQL plants, once or again and again. */
  readonly plants: Readonly<Record<string, { readonly sql?: string; readonly repeated?: string }>>
  /** How long it may stand still before it is quiet. */
  readonly settleMs: number
  createWorld(plan: Plan): Promise<World>
  plant(world: World, how: 'sql' | 'repeated', sql: string): Promise<unknown>
  /** Of the nth process of a role: what is not common to all. */
  orders(world: World, role: Role, seat: number, nth: number): object
  reach(scene: Scene<World, Role>): Reach
  /** All processes are ready, and the plan has not begun. */
  begins?(world: World, say: (line: string) => void): Promise<void>
  /** Again and again. A server that breaks may refuse it. */
  repeats?(world: World): Promise<unknown>
  /** All faults are over. */
  calm?(world: World): void
  /** Returns what is left when the time is over. */
  settle(scene: Reach, withinMs: number): Promise<string[]>
  /** Nothing moves. */
  settled?(scene: Reach): Promise<void>
  /** All processes have left. */
  ended?(world: World): Promise<void>
  gather(world: World): Promise<Rows>
}

export async function drive<
  Plan extends DrivenPlan,
  World extends DrivenWorld,
  Role extends string,
  Reach extends Scene<World, Role>,
  Rows,
>(stage: Stage<Plan, World, Role, Reach, Rows>, plan: Plan, options: DriveOptions): Promise<Evidence<Rows>> {
  const { plant, settleMs = stage.settleMs, say = () => {} } = options
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, ...(options.signal === undefined ? [] : [options.signal])])
  setMaxListeners(0, signal)
  const world = await stage.createWorld(plan)
  const { witness, directory } = world
  const names = new Map<number, string>()
  let crew: Crew | undefined
  let striker: Striker<Plan['faults'][number], Reach> | undefined
  let stopNoting = () => {}
  try {
    const { sql, repeated } = plant === undefined ? {} : stage.plants[plant]!
    if (sql !== undefined) await stage.plant(world, 'sql', sql)
    if (sql !== undefined || repeated !== undefined) witness.write('planted')
    const planFile = join(directory, 'plan.json')
    fs.writeFileSync(planFile, JSON.stringify(plan))
    stopNoting = noteStalls(witness)
    const startFile = join(directory, 'start')
    const common = { directory, plan: planFile, startFile, leaseMs: LEASE_MS, sweepMs: SWEEP_MS, plant }
    crew = new Crew(postsOf(stage, world, names, common), (process, end) =>
      witness.write('end', { who: names.get(process), ...end, stderr: end.stderr.slice(-2_000) }),
    )
    await crew.ready()
    signal.throwIfAborted()
    await stage.begins?.(world, say)
    say(`${stage.seats.length} processes are at work.`)
    const startedAt = Date.now()
    // Under another name first, so that it is never read half written.
    fs.writeFileSync(`${startFile}.new`, String(startedAt))
    fs.renameSync(`${startFile}.new`, startFile)
    const scene = stage.reach(sceneOf(stage.seats, world, crew, names, signal))
    striker = new Striker(stage.faults, scene)
    void repeat(() => stage.repeats?.(world), over.signal)
    if (repeated !== undefined) void repeat(() => stage.plant(world, 'repeated', repeated), over.signal)
    for (const card of plan.faults) {
      await unless(signal, startedAt + card.atMs - Date.now())
      signal.throwIfAborted()
      striker.strike(card)
    }
    await unless(signal, startedAt + plan.durationMs - Date.now())
    signal.throwIfAborted()
    await striker.over()
    stage.calm?.(world)
    say(`${plan.faults.length} faults are over.`)
    const left = await stage.settle(scene, settleMs)
    say(left.length === 0 ? 'All is quiet.' : `Nothing moves, and there is left: ${left.join(', ')}.`)
    for (const what of left) witness.write('stuck', { what })
    await crew.calm()
    await stage.settled?.(scene)
    await Promise.race([crew.stop(), unless(signal, LEAVES_WITHIN_MS)])
    signal.throwIfAborted()
    await crew.kill()
    await stage.ended?.(world)
    say('All processes have left.')
    const rows = await stage.gather(world)
    fs.writeFileSync(join(directory, 'rows.json'), JSON.stringify(rows))
    return { lines: readWitness(directory), rows, directory }
  } finally {
    over.abort()
    // The faults under way end early, and undo what they did.
    await striker?.over()
    await crew?.kill()
    stopNoting()
    await world.stop()
    if (options.signal?.aborted) fs.rmSync(directory, { recursive: true })
  }
}

function seatsOf<Role>(seats: readonly Role[], role: Role): number[] {
  return seats.flatMap((each, seat) => (each === role ? [seat] : []))
}

function postsOf<World, Role extends string>(
  {
    seats,
    programs,
    flags = [],
    orders,
  }: {
    readonly seats: readonly Role[]
    readonly programs: (role: Role) => URL
    readonly flags?: readonly string[]
    orders(world: World, role: Role, seat: number, nth: number): object
  },
  world: World,
  names: Map<number, string>,
  common: Omit<Orders, 'name' | 'plant'> & { readonly plant: string | undefined },
): Post[] {
  return seats.map((role, seat) => ({
    program: fileURLToPath(programs(role)),
    flags,
    orders: (process) => {
      const name = `${role}-${seat}.${process}`
      names.set(process, name)
      return { ...common, name, ...orders(world, role, seat, seatsOf(seats, role).indexOf(seat)) }
    },
  }))
}

function sceneOf<World extends DrivenWorld, Role extends string>(
  seats: readonly Role[],
  world: World,
  crew: Crew,
  names: ReadonlyMap<number, string>,
  signal: AbortSignal,
): Scene<World, Role> {
  return {
    world,
    crew,
    witness: world.witness,
    signal,
    seats: Object.fromEntries(seats.map((role) => [role, seatsOf(seats, role)])) as Record<Role, number[]>,
    nameOf: (process) => names.get(process)!,
    wait: (ms) => unless(signal, ms),
  }
}

async function repeat(run: () => Promise<unknown> | undefined, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await run()?.catch(() => {})
    await unless(signal, REPEAT_MS)
  }
}
