/** The tables of the two stories, and what is asked of them while they are told. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { RACE_POOL } from './incidents.ts'
import type { PoolReport } from './messages.ts'
import { rowsOf } from './scale.ts'
import { summaries } from './summaries.ts'

const TABLES = `
create table summary (id integer primary key, status text not null default 'pending', result text);
${summaries.sql()}

-- A witness that no worker can forget to tell: whoever changes a finished result leaves a trace here.
create table overwritten (summary_id integer not null, was text, became text);
create function note_overwritten() returns trigger language plpgsql as $$
begin
  insert into overwritten values (old.id, old.result, new.result);
  return null;
end $$;
create trigger overwritten after update on summary for each row
  when (old.status = 'completed' and old.result is distinct from new.result) execute function note_overwritten();

-- What a worker says became of each delivery. One that is killed says nothing.
create table handled (summary_id integer not null, worker text not null, outcome text not null);

-- No unique index: some policies allow two open incidents, so the table cannot know.
create table incident (
  id bigint generated always as identity primary key, round integer not null, entity_id integer not null,
  is_open boolean not null default true, opened_by text not null);
create index on incident (round, entity_id) where is_open;
create table guard_count (round integer not null, worker text not null, written integer not null, conflicts integer not null);
create table evaluating (round integer not null, evaluations integer not null, connections integer not null, busy integer not null);`

export class Database {
  readonly pool: pg.Pool

  private constructor(url: string) {
    this.pool = new pg.Pool({ connectionString: url })
    // The server is stopped under idle connections when the demo is interrupted. A query still rejects.
    this.pool.on('error', () => {})
  }

  static async open(url: string): Promise<Database> {
    const database = new Database(url)
    await database.pool.query(TABLES)
    return database
  }

  async addRows(act: number): Promise<void> {
    const ids = Object.values(rowsOf(act)).flat()
    await this.pool.query('insert into summary (id) select unnest($1::int[])', [ids])
  }

  /** Resolves when every row has its result. */
  async untilFinished(signal: AbortSignal): Promise<void> {
    while ((await this.count(`select count(*) from summary where status <> 'completed'`)) > 0) {
      await sleep(50, undefined, { signal })
    }
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

  async count(sql: string): Promise<number> {
    const { rows } = await this.pool.query<[string]>({ text: sql, rowMode: 'array' })
    return Number(rows[0]![0])
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
}

export interface Evaluating {
  readonly connections: number
  /** In use, or waited for. */
  readonly busy: number
}
