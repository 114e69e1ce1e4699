/** Two ways to handle the message "summarise row 7", which may arrive twice, late, early, or at two consumers at once. */
import type pg from 'pg'
import { z } from 'zod'
import { type Handle, inTwoPhases } from '../../src/sqs/index.ts'
import { summaries } from '../summary.ts'

export const body = z.object({ id: z.number() })
export type Body = z.infer<typeof body>

type Ask = (id: number, key?: string) => Promise<string>

/** Claims the row, asks with a key, commits. Then the consumer deletes the message. */
export function guarded(pool: pg.Pool, ask: Ask): Handle<Body> {
  return inTwoPhases<Body, 'result'>(summaries, pool, {
    id: (message) => message.body.id,
    effect: async (message, { effectKey }) => ({ result: await ask(message.body.id, effectKey('summarise')) }),
  })
}

/** Asks, writes. Then the consumer deletes the message. */
export function unguarded(pool: pg.Pool, ask: Ask): Handle<Body> {
  return async (message) => {
    const { id } = message.body
    message.rowId = String(id)
    const result = await ask(id)
    await pool.query(`update summary set status = 'completed', result = $2 where id = $1`, [id, result])
  }
}
