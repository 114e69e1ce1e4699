/** By name. Each is loaded when it is asked for, so that no process pays for another's modules. */
import type { Contender } from './contender.ts'
import type { ContenderName } from './names.ts'

const LOADERS: Readonly<Record<ContenderName, () => Promise<Contender>>> = {
  leasehold: async () => (await import('./leasehold.ts')).leasehold,
  'leasehold-not-kept': async () => (await import('./leasehold.ts')).notKept,
  'graphile-worker': async () => (await import('./graphile-worker.ts')).graphileWorker,
  'graphile-worker-no-local-queue': async () => (await import('./graphile-worker.ts')).noLocalQueue,
  'pg-boss': async () => (await import('./pg-boss.ts')).pgBoss,
  bullmq: async () => (await import('./bullmq.ts')).bullmq,
  'leasehold-ordered': async () => (await import('./leasehold.ts')).ordered,
  'leasehold-fair': async () => (await import('./leasehold.ts')).fair,
  'leasehold-keyed': async () => (await import('./leasehold.ts')).keyed,
  'leasehold-ring': async () => (await import('./leasehold.ts')).ring,
  'leasehold-ordered-ring': async () => (await import('./leasehold.ts')).orderedRing,
  'graphile-worker-ordered': async () => (await import('./graphile-worker.ts')).ordered,
  'pg-boss-ordered': async () => (await import('./pg-boss-ordered.ts')).pgBossOrdered,
  floor: async () => (await import('./floor.ts')).floor,
  'floor-not-kept': async () => (await import('./floor.ts')).floorNotKept,
}

export function load(name: ContenderName): Promise<Contender> {
  return LOADERS[name]()
}
