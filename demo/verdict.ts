/** The end of the demo: every number is read from the tables, when no process is left that could change them. */
import type pg from 'pg'
import type { Finding } from './findings.ts'
import { ALL_ORDERS, CONCURRENCY } from './scale.ts'

const QUESTIONS: readonly { readonly what: string; readonly expected: number; readonly sql: string }[] = [
  {
    what: 'orders paid',
    expected: ALL_ORDERS,
    sql: 'select count(*) from orders',
  },
  {
    what: 'jobs stored with them',
    expected: ALL_ORDERS,
    sql: 'select count(*) from leasehold.jobs',
  },
  {
    what: 'receipts sent',
    expected: ALL_ORDERS - 1,
    sql: 'select count(*) from receipt',
  },
  {
    what: 'receipts sent twice',
    expected: 0,
    sql: 'select count(*) from (select from receipt group by order_id having count(*) > 1) as twice',
  },
  {
    what: 'receipts lost',
    expected: 0,
    sql: `
      select count(*) from orders
      where not exists (select from receipt where order_id = orders.id) and not exists (
        select from leasehold.jobs where idempotency_key = 'receipt-' || orders.id and status = 'dead_letter')`,
  },
  {
    what: 'receipts taken over from the killed and the paused worker',
    expected: 2 * CONCURRENCY,
    sql: `
      select count(*) from incident join leasehold.jobs on idempotency_key = 'receipt-' || order_id
      where status = 'completed' and lease_generation > generation`,
  },
  {
    what: 'late finishes of the paused worker, refused',
    expected: CONCURRENCY,
    sql: `select count(*) from incident join refusal using (order_id, generation) where what = 'paused'`,
  },
  {
    what: 'enqueued again after a lost reply, answered "existing"',
    expected: 1,
    sql: `select count(*) from enqueued_again where answer = 'existing'`,
  },
  {
    what: 'dead letters: an address that cannot be used',
    expected: 1,
    sql: `select count(*) from leasehold.jobs where status = 'dead_letter' and reason = 'fatal'`,
  },
]

export async function findings(pool: pg.Pool): Promise<Finding[]> {
  const answers: Finding[] = []
  for (const { what, expected, sql } of QUESTIONS) {
    const { rows } = await pool.query<[string]>({ text: sql, rowMode: 'array' })
    answers.push({ what, expected, found: Number(rows[0]![0]) })
  }
  return answers
}

/** A query for the reader: every order that does not have exactly one receipt. */
export const SEE_FOR_YOURSELF = `\
select o.id, j.status, j.reason, j.attempts, count(r.order_id)
from orders o
join leasehold.jobs j on j.idempotency_key = 'receipt-' || o.id
left join receipt r on r.order_id = o.id
group by 1, 2, 3, 4 having count(r.order_id) <> 1 order by 1`
