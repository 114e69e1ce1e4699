/**
 * The work: each account has a list of numbered bookings, which have to be entered one after the other. `entry` has no constraint that
 * would hide a second row, so it is the witness.
 */
import pg from 'pg'
import { bucketOf } from '../../src/core/bucket.ts'
import { kind, Leasehold, queue } from '../../src/index.ts'
import { ACCOUNTS, QUEUE } from './scale.ts'

const TABLES = `
create table entry (
  id        bigint generated always as identity primary key,
  account   text not null,
  n         integer not null,
  -- The number of the last entry, as the worker knew it.
  after     integer not null,
  by_memory boolean not null,
  worker    text not null,
  began_at  timestamptz not null,
  ended_at  timestamptz not null default clock_timestamp()
);
create index on entry (account, n);
-- By hand.
create table todo (id bigint generated always as identity primary key, account text, bucket integer, n integer, done boolean default false);
create index on todo (id) where not done;
create table member (worker text primary key, seat integer not null unique, beat_at timestamptz not null)`

export interface Booking {
  readonly account: string
  readonly n: number
}

export const book = kind<Booking>('book', { queue: QUEUE, ordered: true, maxAttempts: 20, backoff: { first: '100ms' } })

/** The seat of each worker, and the jobs that it has done. */
export interface Roster {
  readonly seats: ReadonlyMap<string, number>
  readonly entries: ReadonlyMap<string, number>
}

export interface Findings {
  readonly missing: number
  readonly twice: number
  readonly orderBreaks: number
  readonly overlaps: number
  readonly stale: number
  readonly byMemory: number
}

export class Accounts {
  readonly #pool: pg.Pool
  readonly #leasehold: Leasehold
  readonly #isUnprotected: boolean
  readonly #last = new Array<number>(ACCOUNTS).fill(0)
  #next = 0

  private constructor(url: string, isUnprotected: boolean) {
    this.#pool = new pg.Pool({ connectionString: url })
    this.#pool.on('error', () => {}) // The server is stopped under idle connections when the demo is interrupted.
    this.#leasehold = new Leasehold({ pool: this.#pool, log: () => {} })
    this.#isUnprotected = isUnprotected
  }

  static async open(url: string, isUnprotected: boolean): Promise<Accounts> {
    const accounts = new Accounts(url, isUnprotected)
    await accounts.#leasehold.migrate()
    await accounts.#leasehold.configure([queue(QUEUE, { ordered: true, ring: true }), book])
    await accounts.#pool.query(TABLES)
    return accounts
  }

  get enqueued(): number {
    return this.#last.reduce((sum, n) => sum + n, 0)
  }

  /** The next bookings, of one account after the other. */
  async add(count: number): Promise<void> {
    const bookings = Array.from({ length: count }, () => {
      const index = this.#next++ % ACCOUNTS
      return { account: `account:${index}`, n: ++this.#last[index]! }
    })
    if (this.#isUnprotected) {
      const parts = [
        bookings.map(({ account }) => account),
        bookings.map(({ account }) => bucketOf(account)),
        bookings.map(({ n }) => n),
      ]
      const sql = 'insert into todo (account, bucket, n) select * from unnest($1::text[], $2::integer[], $3::integer[])'
      await this.#pool.query(sql, parts)
    } else {
      const jobs = bookings.map((input) => ({ input, partitionKey: input.account }))
      await this.#leasehold.enqueueMany(book, jobs)
    }
  }

  async unfinished(): Promise<number> {
    const jobs = 'select count(*)::int as n from leasehold.job'
    return this.#number(this.#isUnprotected ? 'select count(*)::int as n from todo where not done' : jobs)
  }

  async roster(): Promise<Roster> {
    const seats = this.#isUnprotected
      ? 'select worker, seat from member'
      : 'select label as worker, number as seat from leasehold.seats'
    const [{ rows: seated }, { rows: entered }] = await Promise.all([
      this.#pool.query(seats),
      this.#pool.query('select worker, count(*)::int as n from entry group by worker'),
    ])
    return {
      seats: new Map(seated.map((row) => [row.worker, row.seat])),
      entries: new Map(entered.map((row) => [row.worker, row.n])),
    }
  }

  async ownerOf(account: string): Promise<string> {
    const owner = await this.#leasehold.ownerOf(QUEUE, account)
    return owner === undefined ? 'no owner' : `${owner.label}, seat ${owner.seat}, bucket ${owner.bucket}`
  }

  async now(): Promise<Date> {
    return (await this.#pool.query('select clock_timestamp() as at')).rows[0].at
  }

  /** Attempts since then that ended otherwise than by success or a release: leases that expired are among them. */
  crashesSince(at: Date): Promise<number> {
    const sql = `select count(*)::int as n from leasehold.attempts where outcome not in ('completed', 'released') and ended_at >= $1`
    return this.#number(sql, at)
  }

  async findings(): Promise<Findings> {
    const entries = await this.#pool.query<Record<'twice' | 'order_breaks' | 'stale' | 'by_memory', number>>(`
      select coalesce(sum((e.copy > 1)::int), 0)::int as twice,
        coalesce(sum((e.n < e.highest)::int), 0)::int as order_breaks,
        coalesce(sum((e.after <> e.before)::int), 0)::int as stale,
        coalesce(sum(e.by_memory::int), 0)::int as by_memory
      from (
        select n, after, by_memory,
          row_number() over (partition by account, n order by id) as copy,
          coalesce(max(n) over (partition by account order by id rows between unbounded preceding and 1 preceding), 0) as highest,
          coalesce(lag(n) over (partition by account order by id), 0) as before
        from entry
      ) as e`)
    const { twice, order_breaks: orderBreaks, stale, by_memory: byMemory } = entries.rows[0]!
    const overlaps = await this.#number(`select count(*)::int as n from entry e where exists (
      select from entry o where o.account = e.account and o.id <> e.id and o.began_at < e.ended_at and e.began_at < o.ended_at)`)
    const entered = await this.#number('select count(*)::int as n from (select distinct account, n from entry) as e')
    return { missing: this.enqueued - entered, twice, orderBreaks, overlaps, stale, byMemory }
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  async #number(sql: string, ...values: unknown[]): Promise<number> {
    return (await this.#pool.query<{ n: number }>(sql, values)).rows[0]!.n
  }
}
