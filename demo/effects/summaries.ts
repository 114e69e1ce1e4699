/** Three ways to handle the message "summarise row 7", which may arrive twice, late, or at two workers at once. */
import type pg from 'pg'
import { askLlm, summaries } from '../summary.ts'
import type { Way } from './messages.ts'

export interface Tools {
  readonly pool: pg.Pool
  /** Where the LLM is. */
  readonly llm: string
}

/** The outcome of one delivery. */
type Handle = (id: number, tools: Tools) => Promise<string>

export const WAYS: Readonly<Record<Way, Handle>> = {
  naive: async (id, tools) => {
    if (await isDone(id, tools)) return 'done before'
    const result = await askLlm(tools.llm, id)
    await tools.pool.query(`update summary set status = 'completed', result = $2 where id = $1`, [id, result])
    return 'applied'
  },

  'one UPDATE': async (id, tools) => {
    if (await isDone(id, tools)) return 'done before'
    const result = await askLlm(tools.llm, id)
    const { outcome } = await summaries.transition(tools.pool, id, 'pending', 'completed', { result })
    return outcome
  },

  'two phases': async (id, tools) => {
    const { outcome } = await summaries.work(tools.pool, id, async ({ effectKey }) => ({
      result: await askLlm(tools.llm, id, effectKey('summarise')),
    }))
    return outcome
  },
}

async function isDone(id: number, { pool }: Tools): Promise<boolean> {
  const { rows } = await pool.query('select status from summary where id = $1', [id])
  return rows[0].status === 'completed'
}
