/** The tables of the two stories, and the queries while they run. */
import { SummaryDatabase } from '../summary.ts'
import { RACE_POOL } from './incidents.ts'
import type { PoolReport } from './messages.ts'

const TABLES = `
-- What a worker says became of each delivery. One that is killed says nothing.
create table handled (summary_id integer not null, worker text not null, outcome text not null);

-- No unique index: some policies allow two open incidents, so the table cannot know.
create table incident (
  id bigint generated always as identity primary key, round integer not null, entity_id integer not null,
  is_open boolean not null default true, opened_by text not null);
create index on incident (round, entity_id) where is_open;
create table guard_count (round integer not null, worker text not null, written integer not null, conflicts integer not null);
create table evaluating (round integer not null, evaluations integer not null, connections integer not null, busy integer not null);`

export class Database extends SummaryDatabase {
  static async open(url: string): Promise<Database> {
    const database = new Database(url)
    await database.createTables()
    await database.pool.query(TABLES)
    return database
  }

  /** What all racers' connections do while all of them evaluate, by the server and by their own pools. */
  async noteEvaluating(round: number, evaluations: number, pools: readonly PoolReport[]): Promise<Evaluating> {
    const of = (what: keyof PoolReport) => pools.reduce((sum, pool) => sum + pool[what], 0)
    const { rows } = await this.pool.query(
      `insert into evaluating
        select $1, $2, count(*), greatest(count(*) filter (where state <> 'idle'), $4) + $5
        from pg_stat_activity where application_name = $3
        returning connections, busy`,
      [round, evaluations, RACE_POOL.application_name, of('busy'), of('waiting')],
    )
    return rows[0]
  }
}

export interface Evaluating {
  readonly connections: number
  /** In use, or waited for. */
  readonly busy: number
}
