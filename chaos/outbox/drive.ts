/** The stage of the outbox: relays and producers at one database, consumers at another, and brokers between them. */
import type { DriveOptions } from '../common/command.ts'
import {
  drive as driveStage,
  type Evidence as EvidenceOf,
  evidenceIn as evidenceOf,
  type Stage,
} from '../common/drive.ts'
import { gather, type Rows } from './evidence.ts'
import { CARRIED_OUT, type Role, type Scene } from './faults.ts'
import type { Plan } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { settle } from './settle.ts'
import { createWorld, retain, type World } from './world.ts'

export type Evidence = EvidenceOf<Rows>
export const evidenceIn = evidenceOf<Plan, Rows>

const STAGE: Stage<Plan, World, Role, Scene, Rows> = {
  seats: ['relay', 'relay', 'relay', 'consumer', 'consumer', 'consumer', 'producer', 'producer'],
  programs: (role) => new URL(`programs/${role}.ts`, import.meta.url),
  faults: CARRIED_OUT,
  plants: PLANTS,
  settleMs: 60_000,
  createWorld: ({ seed }) => createWorld(seed),
  plant: ({ publishing, receiving }, how, sql) => (how === 'sql' ? publishing : receiving).query(sql),
  orders: ({ urls, natsUrl, faultySqs, queueUrl }, role, _seat, nth) => ({
    url: role === 'consumer' ? urls.receiving : urls.publishing,
    nats: natsUrl,
    sqs: { ...faultySqs.config, maxAttempts: 1 },
    queueUrl,
    ...(role === 'producer' && { producer: nth }),
  }),
  reach: (scene) => scene,
  repeats: retain,
  calm: (world) => world.calm(),
  settle,
  gather,
}

export function drive(plan: Plan, options: DriveOptions = {}): Promise<Evidence> {
  return driveStage(STAGE, plan, options)
}
