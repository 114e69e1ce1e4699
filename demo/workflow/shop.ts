/** The shop: its tables, the orders that are placed, and the shipments that its warehouse announces. */
import pg from 'pg'
import { Leasehold, withTransaction } from '../../src/index.ts'
import { getRun, RunFinishedError, type RunSnapshot, signal, start } from '../../src/workflow/index.ts'
import { checkout, plainCheckout } from './checkout.ts'
import { LOST_ORDER, PATIENCE_MS, type Version } from './scale.ts'

// No constraint that would hide a second row.
const TABLES = `
create table orders (id integer primary key, placed_at timestamptz not null default now());
create table booking (order_id integer not null);
create table shipment (order_id integer primary key)`

export interface Shipped {
  readonly announced: number
  /** Announced a second time, and dropped. */
  readonly duplicates: number
}

export class Shop {
  readonly #pool: pg.Pool
  readonly #leasehold: Leasehold
  readonly #isUnprotected: boolean

  private constructor(url: string, isUnprotected: boolean) {
    this.#pool = new pg.Pool({ connectionString: url })
    this.#pool.on('error', () => {}) // The server is stopped under idle connections when the demo is interrupted.
    this.#leasehold = new Leasehold({ pool: this.#pool, log: () => {} })
    this.#isUnprotected = isUnprotected
  }

  static async open(url: string, isUnprotected: boolean): Promise<Shop> {
    const shop = new Shop(url, isUnprotected)
    await shop.#leasehold.migrate()
    await shop.#pool.query(TABLES)
    return shop
  }

  /** The order and its run are one commit. */
  async place(order: number, version: Version): Promise<void> {
    const input = { order, patienceMs: order === LOST_ORDER ? PATIENCE_MS.lost : PATIENCE_MS.others }
    await withTransaction(this.#pool, async (tx) => {
      await tx.query('insert into orders (id) values ($1)', [order])
      if (this.#isUnprotected) await this.#leasehold.enqueue(plainCheckout, input, { tx })
      else await start(this.#leasehold, checkout(version), input, { tx, runId: runId(order) })
    })
  }

  /** The warehouse announces each parcel twice, as message brokers do; in one transaction, since a run may end after the first. */
  async ship(orders: readonly number[]): Promise<Shipped> {
    let duplicates = 0
    for (const order of orders) if ((await this.#announce(order, 2)) === 'duplicate') duplicates++
    return { announced: orders.length, duplicates }
  }

  /** A shipment that is announced when the run has ended. */
  async shipLate(order: number): Promise<'refused' | 'accepted'> {
    try {
      await this.#announce(order)
      return 'accepted'
    } catch (error) {
      if (error instanceof RunFinishedError) return 'refused'
      throw error
    }
  }

  run(order: number): Promise<RunSnapshot | undefined> {
    return getRun(this.#leasehold, checkout(1), runId(order))
  }

  /** Runs, or jobs, of this status. */
  async count(status: string, version?: Version): Promise<number> {
    const runs = `select count(*)::int as n from leasehold.runs where status = $1 and version = coalesce($2, version)`
    const jobs = `select count(*)::int as n from leasehold.jobs where status::text = $1 and $2::integer is null`
    const { rows } = await this.#pool.query(this.#isUnprotected ? jobs : runs, [status, version ?? null])
    return rows[0].n
  }

  /** Runs that have ended, in whichever way. */
  async ended(version?: Version): Promise<number> {
    const each = ['completed', 'cancelled', 'dead_letter'].map((status) => this.count(status, version))
    return (await Promise.all(each)).reduce((sum, count) => sum + count, 0)
  }

  /** Sessions of workers in the database. */
  async sessions(): Promise<number> {
    const { rows } = await this.#pool.query(
      `select count(*)::int as n from pg_stat_activity where application_name like 'leasehold worker%'`,
    )
    return rows[0].n
  }

  async bookings(): Promise<ReadonlyMap<number, number>> {
    const { rows } = await this.#pool.query('select order_id, count(*)::int as n from booking group by order_id')
    return new Map(rows.map((row) => [row.order_id, row.n]))
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  /** Returns what became of the last announcement. */
  #announce(order: number, times = 1): Promise<'sent' | 'duplicate'> {
    return withTransaction(this.#pool, async (tx) => {
      await tx.query('insert into shipment values ($1) on conflict do nothing', [order])
      let outcome: 'sent' | 'duplicate' = 'sent'
      if (this.#isUnprotected) return outcome
      const idempotencyKey = `parcel-${order}`
      for (let time = 1; time <= times; time++) {
        outcome = await signal(this.#leasehold, checkout(1), runId(order), 'shipped', { order }, { tx, idempotencyKey })
      }
      return outcome
    })
  }
}

function runId(order: number): string {
  return `order-${order}`
}
