// receipts.ts
import { Fatal, handle, kind, type Leasehold } from 'leasehold'
import type pg from 'pg'
import { z } from 'zod'

const order = z.object({ order: z.number().int(), email: z.email() })
export const receipt = kind('receipt', { input: order, backoff: { first: '1m', max: '1h' } }).returns<string>()
export const reminder = kind<{ order: number }>('reminder')

/** A toy that stands for a mail service. */
export const mailer = { send: async (to: string, key: string) => `sent to ${to} under ${key.slice(0, 8)}` }

export async function pay(pool: pg.Pool, leasehold: Leasehold, input: z.infer<typeof order>): Promise<void> {
  const tx = await pool.connect()
  try {
    await tx.query('begin')
    await tx.query('insert into payment values ($1)', [input.order])
    await leasehold.enqueue(receipt, input, { tx })
    await leasehold.enqueue(reminder, { order: input.order }, { tx, delay: '30d' })
    await tx.query('commit')
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}

export const sendReceipt = handle(receipt, async (job) => {
  if (job.input.email.endsWith('.invalid')) throw new Fatal('there is no such address')
  return job.once('send', () => mailer.send(job.input.email, job.effectKey('send')), { ifUnknown: 'retry' })
})
export const remind = handle(reminder, () => {})
export const handlers = [sendReceipt, remind]
