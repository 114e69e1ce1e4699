/** The table of those demos that ask an LLM for summaries, and what they all do with it. */
import pg from 'pg'
import { statusTable } from '../src/tables/index.ts'
import { callProvider } from '../tools/provider.ts'
import { until } from './program.ts'

/** The default is 15m, too long to watch. A live process renews more often than this, even on a busy machine. */
export const STUCK_AFTER = '6s'
/** The default is 30s. Every process runs it; two at once do not get the same row. */
export const RECOVERY_EVERY_MS = 500

export const summaries = statusTable('summary', { columns: ['result'], stuckAfter: STUCK_AFTER })

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
  when (old.status = 'completed' and old.result is distinct from new.result) execute function note_overwritten();`

/** The queries of a demo while its story runs. */
export class SummaryDatabase {
  readonly url: string
  readonly pool: pg.Pool

  constructor(url: string) {
    this.url = url
    this.pool = new pg.Pool({ connectionString: url })
    // The server is stopped under idle connections when the demo is interrupted. A query still rejects.
    this.pool.on('error', () => {})
  }

  async createTables(): Promise<void> {
    await this.pool.query(TABLES)
  }

  async addRows(ids: readonly number[]): Promise<void> {
    await this.pool.query('insert into summary (id) select unnest($1::int[])', [ids])
  }

  /** Resolves when every row has its result. */
  async untilFinished(signal: AbortSignal): Promise<void> {
    await until(
      async () => (await this.count(`select count(*) from summary where status <> 'completed'`)) === 0,
      signal,
    )
  }

  async count(sql: string): Promise<number> {
    const { rows } = await this.pool.query<[string]>({ text: sql, rowMode: 'array' })
    return Number(rows[0]![0])
  }

  async close(): Promise<void> {
    await this.pool.end()
  }
}

/** No two answers are the same, as with an LLM. */
export async function askLlm(url: string, id: number, key?: string): Promise<string> {
  const { number } = (await callProvider(url, effectOf(id), key)) as { number: number }
  return `Summary of row ${id}, in the words of call ${number}.`
}

/** Its name in the LLM's record. */
export function effectOf(id: number): string {
  return `summary-${id}`
}
