/** The state of both databases after a run, from public views and from what producers and consumers stored. */
import type pg from 'pg'
import type { World } from './world.ts'

/** An event whose transaction committed. */
export interface CommittedRow {
  readonly id: string
  /** Its name, which the data has, too. */
  readonly w: string
  readonly key: string
  /** Its place among the commits of its key. */
  readonly n: number
  readonly poison: boolean
  readonly digest: string
}

/** An effect at a receiver, in the order in which they happened. */
export interface EffectRow {
  readonly destination: string
  readonly key: string
  readonly id: string
  readonly w: string
  readonly digest: string
  readonly process: string
  readonly at: number
}

/** A job that was not sent: a dead letter, or one that is left. */
export interface UnsentRow {
  readonly destination: string
  /** Of the event. */
  readonly id: string
  readonly status: string
  readonly reason: string | null
  readonly error: string | null
  /** Whether its event is still stored. */
  readonly isStored: boolean
}

export interface Rows {
  readonly committed: readonly CommittedRow[]
  readonly effects: readonly EffectRow[]
  readonly unsent: readonly UnsentRow[]
  /** How many events are stored. */
  readonly stored: number
}

const COMMITTED = 'select id::text, w, key, n, poison, digest from chaos.committed order by key, n'
const EFFECTS = `select destination, key, id, w, digest, process, (extract(epoch from at) * 1000)::float8 as at
  from chaos.effect order by position`
const UNSENT = `select substr(j.queue, 8) as destination, j.payload ->> 'id' as id, j.status::text, j.reason,
    j.last_error ->> 'message' as error, exists (
      select from leasehold.event e where e.id = (j.payload ->> 'id')::uuid
    ) as "isStored"
  from leasehold.jobs j where j.queue like 'outbox:%' and j.status in ('pending', 'processing', 'dead_letter') order by j.id`

export async function gather({ publishing, receiving }: World): Promise<Rows> {
  const all = async <Row>(pool: pg.Pool, sql: string): Promise<Row[]> => (await pool.query(sql)).rows
  const [{ count }] = (await all<{ count: number }>(publishing, 'select count(*)::int from leasehold.event')) as [
    { count: number },
  ]
  return {
    committed: await all<CommittedRow>(publishing, COMMITTED),
    effects: await all<EffectRow>(receiving, EFFECTS),
    unsent: await all<UnsentRow>(publishing, UNSENT),
    stored: count,
  }
}
