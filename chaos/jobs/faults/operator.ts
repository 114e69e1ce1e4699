/** Operators' actions: pause and resume, cancel, redrive. Through the public API, bypassing the proxy. */
import type { PauseTarget } from '../../../src/jobs/pause.ts'
import type { FaultCard } from '../../common/deck.ts'
import type { Scene } from './scene.ts'

const AT_MOST = 12

/** A queue and a kind, in turn. Work must go on elsewhere, so the busiest is spared. */
const TARGETS: readonly PauseTarget[] = [
  { queue: 'queue_1' },
  { kind: 'many_2' },
  { queue: 'keyed' },
  { kind: 'steering' },
  { queue: 'forgotten' },
  { kind: 'complete_within' },
]

export async function pauseOne({ pick, forMs }: FaultCard, { world, witness, paused, wait }: Scene): Promise<boolean> {
  const free = TARGETS.filter((target) => !paused.has(JSON.stringify(target)))
  const target = free[Math.floor(pick * free.length)]!
  const [what, name] = Object.entries(target)[0]!
  paused.add(JSON.stringify(target))
  const askedAt = Date.now()
  const outcome = await world.leasehold.pause(target, { by: 'chaos' })
  const pausedAt = Date.now()
  await wait(forMs)
  const resumedAt = Date.now()
  // It stays paused otherwise, and the run would never come to rest.
  for (let tries = 0; ; tries++) {
    try {
      await world.leasehold.resume(target, { by: 'chaos' })
      break
    } catch (error) {
      if (tries === 50) throw error
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  paused.delete(JSON.stringify(target))
  witness.write('pause', { what, name, outcome, askedAt, pausedAt, resumedAt })
  return outcome === 'paused'
}

/** Jobs that wait and jobs that run. */
export async function cancelSome({ pick }: FaultCard, { world, witness }: Scene): Promise<boolean> {
  const { rows } = await world.admin.query(
    `(select id::text from leasehold.jobs where status = 'processing' order by hashtext(id::text || $1) limit $2)
     union all
     (select id::text from leasehold.jobs where kind in ('steering', 'plain') and status = 'pending'
      order by hashtext(id::text || $1) limit $2)`,
    [String(pick), AT_MOST / 4],
  )
  let accepted = 0
  for (const { id } of rows) {
    const askedAt = Date.now()
    const outcome = await world.leasehold.cancel(id, { by: 'chaos', reason: 'on purpose' })
    witness.write('cancel', { job: id, outcome, askedAt })
    if (outcome === 'cancelled' || outcome === 'requested') accepted++
  }
  return accepted > 0
}

export async function redriveSome({ pick }: FaultCard, { world, witness }: Scene): Promise<boolean> {
  const { rows } = await world.admin.query(
    `select id::text from leasehold.jobs where status = 'dead_letter' order by hashtext(id::text || $1) limit $2`,
    [String(pick), AT_MOST],
  )
  const askedAt = Date.now()
  const revived = await world.leasehold.redrive(
    rows.map(({ id }) => id),
    { by: 'chaos' },
  )
  for (const id of revived) witness.write('redrive', { job: id, askedAt })
  return revived.length > 0
}
