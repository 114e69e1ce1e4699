/** The stage of workflows: workers that execute runs, each behind a proxy of its own, and starters that start them and send signals. */
import type { DriveOptions } from '../common/command.ts'
import {
  drive as driveStage,
  type Evidence as EvidenceOf,
  evidenceIn as evidenceOf,
  type Stage,
} from '../common/drive.ts'
import { gather, type Rows } from './evidence.ts'
import { CARRIED_OUT, type Role, type Scene } from './faults.ts'
import { type Plan, STARTERS, WORKERS } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { settle } from './settle.ts'
import { createWorld, type World } from './world.ts'

export type Evidence = EvidenceOf<Rows>
export const evidenceIn = evidenceOf<Plan, Rows>

const STAGE: Stage<Plan, World, Role, Scene, Rows> = {
  seats: [...Array(WORKERS).fill('worker'), ...Array(STARTERS).fill('starter')],
  programs: (role) => new URL(`programs/${role}.ts`, import.meta.url),
  faults: CARRIED_OUT,
  plants: PLANTS,
  settleMs: 30_000,
  createWorld: () => createWorld(),
  plant: ({ admin }, _how, sql) => admin.query(sql),
  orders: ({ url, workers, starters }, role, seat, nth) => ({
    url: (role === 'worker' ? workers[seat]! : starters).url(url),
    ...(role === 'starter' && { starter: nth }),
  }),
  reach: (scene) => scene,
  calm: (world) => world.calm(),
  settle,
  gather,
}

export function drive(plan: Plan, options: DriveOptions = {}): Promise<Evidence> {
  return driveStage(STAGE, plan, options)
}
