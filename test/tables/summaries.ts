// A user's table: summaries that an LLM is to write, one row each.
import { statusTable } from '../../src/tables/index.ts'
import type { TestDatabase } from '../support/database.ts'

export const summaries = statusTable('summary', { columns: ['result', 'completed_at'], stuckAfter: '15m' })

/** The table with rows 1 … n, all pending. What it needs can be run again, as migrations are. */
export async function createSummaries({ pool }: Pick<TestDatabase, 'pool'>, n: number): Promise<void> {
  await pool.query(`
    create table summary (
      id integer primary key,
      status text not null default 'pending',
      result text,
      completed_at timestamptz
    );
    ${summaries.sql()}${summaries.sql()}`)
  await pool.query('insert into summary (id) select generate_series(1, $1::int)', [n])
}

export interface SummaryRow {
  readonly id: number
  readonly status: string
  readonly result: string | null
  readonly completed_at: Date | null
  readonly claim_token: string | null
  readonly claim_expires_at: Date | null
  readonly attempt_count: number
  readonly last_error: string | null
  readonly retry_at: Date | null
  readonly sent_at: Date
}

export async function summary({ pool }: Pick<TestDatabase, 'pool'>, id: number): Promise<SummaryRow> {
  const { rows } = await pool.query<SummaryRow>('select * from summary where id = $1', [id])
  return rows[0]!
}

/** As if the time had passed: the claims of these rows have expired. */
export async function letClaimsAge({ pool }: Pick<TestDatabase, 'pool'>): Promise<void> {
  await pool.query(
    `update summary set claim_expires_at = claim_expires_at - interval '16 min' where status = 'processing'`,
  )
}
