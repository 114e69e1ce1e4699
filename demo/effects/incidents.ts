/** Reads an entity's open incidents, evaluates at length, and opens one if there is none: with the guard and without. */
import type pg from 'pg'
import { ConcurrentModificationError, WriteGuard } from '../../src/tables/index.ts'
import { callProvider } from '../../tools/provider.ts'
import { CONNECTIONS, ENTITIES, RACERS, WORKERS } from './scale.ts'

export interface Race {
  readonly pool: pg.Pool
  /** The service that the evaluation calls. */
  readonly catalogue: string
  readonly round: number
  readonly guarded: boolean
  readonly worker: string
}

/** This process's share of the racers, all at once. */
export async function race(course: Race): Promise<void> {
  const guard = new WriteGuard(course.pool, { lockTimeout: '30s' })
  const racers: Promise<void>[] = []
  for (let entity = 1; entity <= ENTITIES; entity++) {
    for (let racer = 0; racer < RACERS / WORKERS; racer++) racers.push(evaluate(course, guard, entity))
  }
  await Promise.all(racers)
  const { written = 0, conflicts = 0 } = guard.counts()[SITE] ?? {}
  await course.pool.query('insert into guard_count values ($1, $2, $3, $4)', [
    course.round,
    course.worker,
    written,
    conflicts,
  ])
}

const SITE = 'open incident'

async function evaluate(course: Race, guard: WriteGuard, entity: number): Promise<void> {
  const { pool, catalogue, round, worker } = course
  const openIncidents = async (db: Pick<pg.Pool, 'query'>): Promise<string[]> => {
    const text = 'select id from incident where round = $1 and entity_id = $2 and is_open'
    const { rows } = await db.query(text, [round, entity])
    return rows.map(({ id }) => id)
  }
  const open = (db: Pick<pg.Pool, 'query'>) =>
    db.query('insert into incident (round, entity_id, opened_by) values ($1, $2, $3)', [round, entity, worker])

  const seen = await openIncidents(pool)
  // Slow, somewhere else, and without a connection of ours.
  await callProvider(catalogue, `round-${round}/entity-${entity}`)
  if (seen.length > 0) return
  if (!course.guarded) {
    await open(pool)
    return
  }
  try {
    await guard.run({ site: SITE, lock: `entity:${entity}`, seen, reread: openIncidents, write: open })
  } catch (error) {
    // Another racer was first. The next message about this entity will see its incident.
    if (!(error instanceof ConcurrentModificationError)) throw error
  }
}

export const RACE_POOL = { max: CONNECTIONS, application_name: 'racers' }
