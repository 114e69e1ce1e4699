/** The stage of jobs: workers, a process that claims by hand, and producers; some of them connect through PgBouncer. */
import type { DriveOptions } from '../common/command.ts'
import {
  drive as driveStage,
  type Evidence as EvidenceOf,
  evidenceIn as evidenceOf,
  type Stage,
} from '../common/drive.ts'
import { unless } from '../common/unless.ts'
import { gather, type Rows } from './evidence.ts'
import type { Role, Scene } from './faults/scene.ts'
import { CARRIED_OUT } from './faults/strike.ts'
import { CLOSES_CLAIM_OF_LOST_COMPLETION, PUT_CLAIMS_BACK } from './known.ts'
import type { Plan } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { createWorld, sessions, type World } from './world.ts'

export type Evidence = EvidenceOf<Rows>
export const evidenceIn = evidenceOf<Plan, Rows>

/** Idle clients of a pool leave after a second. */
const POOLS_SHRINK_MS = 2_500
const LOOK_EVERY_MS = 200
const QUIET_LOOKS = 4
/** Postgres takes a moment to notice that a client has left. */
const GONE_LOOKS = 100
/** Through PgBouncer, where there is one. */
const POOLED = [3, 6]

const STAGE: Stage<Plan, World, Role, Scene, Rows> = {
  seats: ['worker', 'worker', 'worker', 'worker', 'hand', 'producer', 'producer'],
  programs: (role) => new URL(`programs/${role}.ts`, import.meta.url),
  flags: ['--expose-gc'],
  faults: CARRIED_OUT,
  plants: PLANTS,
  settleMs: 120_000,
  createWorld: ({ faults }) => createWorld({ standby: faults.some(({ fault }) => fault === 'failover') }),
  plant: ({ admin }, _how, sql) => admin.query(sql),
  orders: ({ url, pooledUrl }, role, seat, nth) => {
    const pooled = POOLED.includes(seat) && pooledUrl !== undefined
    return { url: pooled ? pooledUrl : url, pooled, ...(role === 'producer' && { producer: nth }) }
  },
  reach: (scene) => {
    const { world, witness, nameOf } = scene
    return {
      ...scene,
      struck: ({ process, pid }, sent) => witness.write('struck', { who: nameOf(process), pid, signal: sent }),
      heldBy: async () => {
        const { rows } = await world.admin.query(
          `select claimed_by_label as name, count(*)::int as jobs from leasehold.jobs where status = 'processing' group by 1`,
        )
        return new Map(rows.map(({ name, jobs }) => [name, jobs]))
      },
      paused: new Set(),
    }
  },
  begins: async (world, say) => {
    if (world.pooledUrl === undefined) say('There is no PgBouncer: all processes connect directly.')
    world.witness.write('sessions', { when: 'before', count: await sessions(world) })
  },
  settle,
  settled: async ({ world, wait }) => {
    await wait(POOLS_SHRINK_MS)
    world.witness.write('sessions', { when: 'calm', count: await sessions(world) })
  },
  ended: async (world) => {
    await world.stopPooler()
    world.witness.write('sessions', { when: 'after', count: await sessionsLeft(world) })
  },
  gather: ({ admin }) => gather(admin),
}

export function drive(plan: Plan, options: DriveOptions = {}): Promise<Evidence> {
  return driveStage(STAGE, plan, options)
}

async function settle({ world, crew, seats, signal }: Scene, withinMs: number): Promise<string[]> {
  const deadline = performance.now() + withinMs
  for (let quiet = 0; ; ) {
    if (CLOSES_CLAIM_OF_LOST_COMPLETION) await putClaimsBack(world)
    const { rows } = await world.admin.query(`
      select kind, status::text, label, count(*)::int from leasehold.jobs where status in ('pending', 'processing')
      group by 1, 2, 3`)
    const left = rows.map(({ kind, status, label, count }) => `${count} ${kind} ${status} ${label ?? ''}`.trim())
    for (const seat of seats.producer) if (!crew.hasSaid(seat, 'done')) left.push(`a producer on seat ${seat}`)
    quiet = left.length === 0 ? quiet + 1 : 0
    if (quiet === QUIET_LOOKS || performance.now() > deadline) return left
    await unless(signal, LOOK_EVERY_MS)
    signal.throwIfAborted()
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
