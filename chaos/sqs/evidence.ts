/** The evidence after a run: from the database, the queues, the witness and the processes. */
import type { Crew, End } from '../common/crew.ts'
import { WAYS, type Way } from './plan.ts'
import { OURS, type World } from './world.ts'

export interface Row {
  readonly way: Way
  readonly id: number
  readonly status: string
  readonly result: string | null
  readonly token: string | null
}

export interface Evidence {
  readonly rows: readonly Row[]
  /** Each time that a row became completed. */
  readonly finished: readonly { readonly way: Way; readonly id: number }[]
  /** The real effects at the witness, by name. */
  readonly happened: readonly string[]
  readonly effects: readonly number[]
  readonly jobs: readonly { readonly key: string; readonly status: string }[]
  /** In their order. */
  readonly line: readonly { readonly group: string; readonly id: number }[]
  readonly poison: readonly { readonly body: string; readonly reason: string | undefined }[]
  readonly wornOut: readonly string[]
  /** Work that had not ended in time. */
  readonly left: readonly string[]
  readonly ends: readonly End[]
  /** Connections and sessions after all processes have left. */
  readonly connections: number
  /** How often each fault and outcome has happened. */
  readonly counts: ReadonlyMap<string, number>
}

/** Work that must end before anything can be judged. */
export async function whatIsLeft({ pool, queues, depth }: World): Promise<string[]> {
  const left: string[] = []
  for (const way of WAYS) {
    const messages = await depth(queues[way])
    if (messages > 0) left.push(`${messages} messages of "${way}"`)
  }
  const { rows } = await pool.query(`
    select 'two phases' as way, status, count(*), min(last_error) as error from two_phases where status <> 'completed' group by 2
    union all
    select 'one update', status, count(*), min(last_error) from one_update where status <> 'completed' group by 2
    union all
    select 'jobs', status::text, count(*), min(last_error::text) from leasehold.jobs
    where status in ('pending', 'processing') group by 2`)
  for (const { way, status, count, error } of rows) left.push(`${count} of "${way}" ${status} (${error ?? 'no error'})`)
  return left
}

export async function gather(
  world: World,
  crew: Crew,
  left: readonly string[],
  counts: ReadonlyMap<string, number>,
): Promise<Evidence> {
  const { pool, provider, poisonUrl, wornOutUrls, drain } = world
  const { rows } = await pool.query<Row>(`
    select 'two phases' as way, id, status, result, claim_token as token from two_phases
    union all select 'one update', id, status, result, claim_token from one_update`)
  const finished = await pool.query('select way, id from finished')
  const effects = await pool.query('select id from effect')
  const jobs = await pool.query(`select payload ->> 'id' as key, status from leasehold.jobs`)
  const line = await pool.query('select group_id as "group", id from line order by position')
  const wornOut = (await Promise.all(wornOutUrls.map(drain))).flat()
  return {
    rows,
    finished: finished.rows,
    happened: provider.calls.filter(({ happened }) => happened).map(({ effect }) => effect),
    effects: effects.rows.map(({ id }) => id),
    jobs: jobs.rows,
    line: line.rows,
    poison: (await drain(poisonUrl)).map(({ Body, MessageAttributes }) => ({
      body: Body!,
      reason: MessageAttributes?.['leasehold.reason']?.StringValue,
    })),
    wornOut: wornOut.map(({ Body }) => Body!),
    left,
    ends: crew.ends,
    connections: await connectionsLeft(world),
    counts,
  }
}

/** Postgres takes a moment to notice that a client has left. */
async function connectionsLeft({ pool, database }: World): Promise<number> {
  let left = 0
  for (let look = 0; look < 600; look++) {
    const { rows } = await pool.query(
      'select count(*)::int from pg_stat_activity where datname = current_database() and application_name <> $1',
      [OURS],
    )
    left = rows[0].count + database.connections
    if (left === 0) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return left
}
