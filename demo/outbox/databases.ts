/** Two databases on one server: the shop has the orders and the outbox, the back office has invoices, shipments and the inboxes. */
import pg from 'pg'
import { Inbox } from '../../src/inbox/index.ts'
import { Leasehold } from '../../src/index.ts'
import { Outbox, type Reconciliation } from '../../src/outbox/index.ts'
import { billing, type Receiver, shipping, TABLES } from './events.ts'

export class Databases {
  readonly shopUrl: string
  readonly officeUrl: string
  readonly outbox: Outbox
  readonly #shop: Leasehold
  readonly #office: Leasehold
  readonly #pools: { readonly shop: pg.Pool; readonly office: pg.Pool }

  private constructor(shopUrl: string, officeUrl: string) {
    this.shopUrl = shopUrl
    this.officeUrl = officeUrl
    this.#pools = { shop: poolOf(shopUrl), office: poolOf(officeUrl) }
    this.#shop = new Leasehold({ pool: this.#pools.shop, log: () => {} })
    this.#office = new Leasehold({ pool: this.#pools.office, log: () => {} })
    this.outbox = new Outbox(this.#shop)
  }

  static async create(url: string): Promise<Databases> {
    const officeUrl = new URL(url)
    officeUrl.pathname = 'back_office'
    const admin = poolOf(url)
    await admin.query('create database back_office')
    await admin.end()
    const made = new Databases(url, officeUrl.href)
    await Promise.all([made.#shop.migrate(), made.#office.migrate()])
    await made.#pools.shop.query('create table orders (id integer primary key)')
    for (const table of Object.values(TABLES)) {
      await made.#pools.office.query(`create table ${table} (id serial primary key, order_id integer not null)`)
    }
    await made.outbox.configure([billing, shipping])
    return made
  }

  /** Events that are not acknowledged, by destination. */
  async unsent(): Promise<Record<Receiver, number>> {
    const lag = await this.outbox.lag()
    const of = (name: Receiver) => lag.find(({ destination }) => destination === name)!.unsent
    return { billing: of('billing'), shipping: of('shipping') }
  }

  async published(): Promise<number> {
    const { rows } = await this.#pools.shop.query<{ events: number }>(
      'select count(*)::integer as events from leasehold.event',
    )
    return rows[0]!.events
  }

  async paid(): Promise<number> {
    return (await this.#orders()).length
  }

  /** Paid orders without a row, and with several. */
  async damage(receiver: Receiver): Promise<{ lost: number; doubled: number }> {
    const rows = new Map<number, number>()
    const { rows: found } = await this.#pools.office.query<{ order_id: number }>(
      `select order_id from ${TABLES[receiver]}`,
    )
    for (const { order_id: order } of found) rows.set(order, (rows.get(order) ?? 0) + 1)
    const orders = await this.#orders()
    return {
      lost: orders.filter((order) => !rows.has(order)).length,
      doubled: [...rows.values()].filter((each) => each > 1).length,
    }
  }

  /** The sender's events beside the receiver's ids. Everything has settled, so what is not received is missing. */
  reconcile(receiver: Receiver): Promise<Reconciliation> {
    const inbox = new Inbox(this.#office, { source: receiver })
    const received: Parameters<Outbox['reconcile']>[0]['received'] = (events) => inbox.receipts(events)
    return this.outbox.reconcile({ destination: receiver, from: new Date(0), within: 0, received })
  }

  async close(): Promise<void> {
    await Promise.all([this.#pools.shop.end(), this.#pools.office.end()])
  }

  async #orders(): Promise<number[]> {
    const { rows } = await this.#pools.shop.query<{ id: number }>('select id from orders')
    return rows.map(({ id }) => id)
  }
}

function poolOf(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString })
  // The server is stopped under idle connections when the demo is interrupted. A query still rejects.
  return pool.on('error', () => {})
}
