/** The shop: its tables, and the API that is paid and enqueues in one transaction. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Enqueued, Leasehold, withTransaction } from '../src/index.ts'
import { startFaultyProxy } from '../tools/faulty-proxy.ts'
import { keyOf, sendReceipt } from './jobs.ts'
import type { Claim } from './messages.ts'
import { BROKEN_ORDER, PAY_EVERY_MS } from './scale.ts'

// No unique constraint on receipt.order_id: were a receipt sent twice, it would be there twice.
const TABLES = `
create table orders (id integer primary key, email text not null, paid_at timestamptz not null);
create table receipt (
  order_id integer not null, generation bigint not null, worker text not null, sent_at timestamptz default now());

-- What was done to the workers, and what came of it. Only the verdict reads these.
create table incident (order_id integer not null, generation bigint not null, what text not null);
create table refusal (order_id integer not null, generation bigint not null, worker text not null);
create table enqueued_again (order_id integer not null, answer text not null);`

export interface Counts {
  readonly pending: number
  readonly processing: number
  readonly completed: number
  readonly deadLetters: number
}

/** A receipt that a customer has received. */
export interface Sent extends Claim {
  readonly worker: string
}

export class Shop {
  readonly pool: pg.Pool
  readonly #url: string
  readonly #leasehold: Leasehold
  #lastOrder = 0

  private constructor(url: string) {
    this.#url = url
    this.pool = new pg.Pool({ connectionString: url })
    // The server is stopped under idle connections when the demo is interrupted: ignored. A query still rejects.
    this.#leasehold = new Leasehold({ pool: this.pool, log: () => {} })
  }

  static async open(url: string): Promise<Shop> {
    const shop = new Shop(url)
    await shop.#leasehold.migrate()
    await shop.pool.query(TABLES)
    return shop
  }

  /** The next orders, one after the other, at the pace of a good day. */
  async takeOrders(count: number): Promise<void> {
    const until = this.#lastOrder + count
    while (this.#lastOrder < until) {
      await Promise.all([this.#pay(++this.#lastOrder), sleep(PAY_EVERY_MS)])
    }
  }

  /**
   * The next order, over a connection that breaks after the server has committed and before its reply. Whether the customer
   * has paid is unknown, so the API repeats all of it, and learns the outcome of the first time.
   */
  async takeOrderUnheard(): Promise<{ orderId: number; outcome: Enqueued['outcome'] }> {
    const orderId = ++this.#lastOrder
    const { hostname, port } = new URL(this.#url)
    const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
    const client = new pg.Client(proxy.url(this.#url))
    client.on('error', () => {})
    try {
      await client.connect()
      const cut = proxy.cutReplies('commit')
      const heard = await this.#pay(orderId, client).catch(() => undefined)
      if (heard !== undefined) throw new Error('The reply to COMMIT was not lost.')
      await cut
    } finally {
      await proxy.stop()
    }
    const { outcome } = await this.#pay(orderId)
    await this.pool.query('insert into enqueued_again values ($1, $2)', [orderId, outcome])
    return { orderId, outcome }
  }

  #pay(orderId: number, db: pg.Pool | pg.Client = this.pool): Promise<Enqueued> {
    const email = orderId === BROKEN_ORDER ? 'nobody, at nowhere' : `customer-${orderId}@shop.example`
    return withTransaction(db, async (tx) => {
      await tx.query('insert into orders values ($1, $2, now()) on conflict (id) do nothing', [orderId, email])
      const options = { tx, idempotencyKey: keyOf(orderId), partitionKey: `order:${orderId}` }
      return this.#leasehold.enqueue(sendReceipt, { orderId, email }, options)
    })
  }

  /** Remembers which receipts a worker was in the middle of when this happened to it. */
  async noteIncident(what: 'killed' | 'paused', claims: readonly Claim[]): Promise<void> {
    for (const { orderId, generation } of claims) {
      await this.pool.query('insert into incident values ($1, $2, $3)', [orderId, generation, what])
    }
  }

  /** Resolves with the claims once each of those receipts was sent under a later claim. */
  async untilTakenOver(what: 'killed' | 'paused', signal: AbortSignal): Promise<readonly Sent[]> {
    const { rows } = await this.#until(signal, {
      text: `
        select json_agg(json_build_object('orderId', order_id, 'generation', r.generation, 'worker', worker)) as sent
        from incident i join receipt r using (order_id)
        where what = $1 and r.generation > i.generation
        having count(distinct order_id) = (select count(*) from incident where what = $1)`,
      values: [what],
    })
    return rows[0].sent
  }

  /** Resolves when no job is left to do. */
  async untilDrained(signal: AbortSignal): Promise<void> {
    await this.#until(signal, {
      text: `select where not exists (select from leasehold.jobs where status in ('pending', 'processing'))`,
    })
  }

  async counts(): Promise<Counts> {
    const { rows } = await this.pool.query(`
      select
        count(*) filter (where status = 'pending')::int as pending,
        count(*) filter (where status = 'processing')::int as processing,
        count(*) filter (where status = 'completed')::int as completed,
        count(*) filter (where status = 'dead_letter')::int as "deadLetters"
      from leasehold.jobs`)
    return rows[0]
  }

  async close(): Promise<void> {
    await this.pool.end()
  }

  /** Polls until there is a row. */
  async #until(signal: AbortSignal, question: pg.QueryConfig): Promise<pg.QueryResult> {
    for (;;) {
      const answer = await this.pool.query(question)
      if (answer.rows.length > 0) return answer
      await sleep(50, undefined, { signal })
    }
  }
}
