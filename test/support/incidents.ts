// The service of the write guard's tests: it evaluates entities, and opens incidents for those that break a rule. An entity
// must never have two open incidents.
import type pg from 'pg'
import type { GuardedWrite } from '../../src/tables/index.ts'
import type { TestDatabase } from './database.ts'

const TABLE = `
  create table incident (
    id        bigint generated always as identity primary key,
    entity_id bigint not null,
    is_open   boolean not null default true,
    opened_by text
  );
  create index on incident (entity_id)`

export async function createIncidents(db: Pick<TestDatabase, 'pool'>): Promise<void> {
  await db.pool.query(TABLE)
}

/** The query that an evaluation begins with, and that runs again under the lock. */
export function openIncidents(entityId: number) {
  return async (db: pg.Pool | pg.ClientBase): Promise<string[]> => {
    const { rows } = await db.query<{ id: string }>('select id from incident where entity_id = $1 and is_open', [
      entityId,
    ])
    return rows.map((row) => row.id)
  }
}

export function openIncident(entityId: number, by = 'somebody') {
  return async (tx: pg.Pool | pg.ClientBase): Promise<string> => {
    const { rows } = await tx.query<{ id: string }>(
      'insert into incident (entity_id, opened_by) values ($1, $2) returning id',
      [entityId, by],
    )
    return rows[0]!.id
  }
}

/** A guarded write without `seen`. */
export function opening(entityId: number, by?: string) {
  return {
    site: 'open incident',
    lock: `entity:${entityId}`,
    reread: openIncidents(entityId),
    write: openIncident(entityId, by),
  } satisfies Omit<GuardedWrite<string>, 'seen'>
}

/** How many advisory locks exist in the database, held or waited for. */
export async function advisoryLocks(db: Pick<TestDatabase, 'pool'>): Promise<number> {
  const { rows } = await db.pool.query(
    `select count(*)::int as count from pg_locks
      where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
  )
  return rows[0].count
}

/** The backend of a client. */
export function pidOf(client: pg.ClientBase): number {
  return (client as pg.ClientBase & { processID: number }).processID
}

/** The key that the guard locks, as other SQL would write it. */
export const LOCK_ELSEWHERE = "select pg_advisory_xact_lock(hashtextextended('leasehold.guard:' || $1, 0))"
