/**
 * What the outbox costs. Publishing: one `publish` beside a plain insert of the same row and one ordered enqueue, each in a
 * transaction of its own, one connection, durable commits, the ways taking turns. Relaying: events over 1,000 keys to a function of
 * the process, beside the drain of an ordered queue with as many jobs, and beside a relay that takes turns behind one lock and
 * deletes its messages one by one, as one framework's own outbox does. To JetStream, beside a loop that publishes the same bytes in
 * batches of the same size and awaits their acknowledgements. One hot key is reported and has no bar. Every figure is a median over
 * the rounds.
 */
import { scheduler } from 'node:timers/promises'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import { handle, kind, Leasehold, queue, withTransaction } from '../src/index.ts'
import { deliver, destination, inProcess, type NewEvent, Outbox, type Transport } from '../src/outbox/index.ts'
import { startNats } from '../tools/nats.ts'
import { measure } from './floor/measure.ts'
import { CREATE_BASELINE, DELETE_MESSAGE, FILL_BASELINE, INSERT_EVENT, NEXT_MESSAGES, TAKE_TURN } from './outbox.sql.ts'
import { emptyStream, natsTransport, publishBare } from './outbox-nats.ts'
import { BenchServer, type Database } from './server.ts'
import { median } from './statistics.ts'

const KEYS = 1_000
const BULK = 1_000
const TURN = 100
const LOOK_AGAIN_MS = 2
const TURN_TAKERS = 4
const DATA = { order: 9182, cents: 1999, note: 'x'.repeat(400) }

const sink = destination('sink', { transport: 'in_process' })
const stream = destination('stream', { transport: 'nats' })
const step = kind<object>('step', { queue: 'steps', ordered: true })

interface Sizes {
  readonly publishes: number
  readonly events: number
  readonly baseline: number
  readonly rounds: number
}

type Figures = Map<string, number[]>

export async function runOutbox({ quick, json }: { quick: boolean; json: boolean }): Promise<void> {
  const sizes: Sizes = quick
    ? { publishes: 100, events: 2_000, baseline: 300, rounds: 1 }
    : { publishes: 1_000, events: 50_000, baseline: 2_000, rounds: 3 }
  const figures: Figures = new Map()
  const server = await BenchServer.start(18)
  const nats = await startNats()
  const connection = await connect({ servers: nats.urls })
  const fresh = () =>
    server.clone('outbox', async (main, url) => {
      const leasehold = new Leasehold({ connectionString: url, log: () => {} })
      await leasehold.migrate()
      await leasehold.configure([step, queue('steps', { ordered: true })])
      await leasehold.close()
      await main.query(CREATE_BASELINE)
      await main.query('vacuum analyze')
    })
  try {
    await publishing(server, await fresh(), sizes, figures)
    for (let round = 0; round < sizes.rounds; round++) {
      const ways = [
        relayed,
        drained,
        tookTurns,
        hotKey,
        async (database: Database) => {
          await emptyStream(connection)
          const rate = await relay(database, sizes.events, KEYS, stream, (start) => natsTransport(connection, start))
          note(figures, 'relay to NATS, events/s', rate)
        },
        async () => {
          await emptyStream(connection)
          const rate = await publishBare(connection, Buffer.from(JSON.stringify(DATA)), sizes.events)
          note(figures, 'bare publisher to NATS, events/s', rate)
        },
      ]
      for (const way of round % 2 === 0 ? ways : ways.reverse()) {
        const database = await fresh()
        await way(database, sizes, figures)
        await database.drop()
      }
    }
  } finally {
    await connection.close()
    await nats.stop()
    await server.stop()
  }
  report(figures, json)
}

function note(figures: Figures, name: string, value: number): void {
  figures.set(name, [...(figures.get(name) ?? []), value])
}

async function publishing(server: BenchServer, database: Database, sizes: Sizes, figures: Figures): Promise<void> {
  const pool = new pg.Pool({ connectionString: database.url, max: 1 })
  const leasehold = new Leasehold({ pool, log: () => {} })
  const outbox = new Outbox(leasehold, { source: '/bench' })
  await outbox.configure([sink])
  const session = { client: database.main, pid: (await pool.query('select pg_backend_pid() as pid')).rows[0].pid }
  const data = Buffer.from(JSON.stringify(DATA))
  const ways = {
    publish: (n: number) => withTransaction(pool, (tx) => outbox.publish(tx, eventOf(n))),
    'insert and enqueue': (n: number) =>
      withTransaction(pool, async (tx) => {
        const values = ['/bench', 'order.paid', `order:${n % KEYS}`, 'application/json', data]
        const { rows } = await tx.query({ name: 'plain', text: INSERT_EVENT, values })
        await leasehold.enqueue(step, { id: rows[0].id, at: rows[0].at }, { tx, partitionKey: `order:${n % KEYS}` })
      }),
  }
  const names = Object.keys(ways) as (keyof typeof ways)[]
  let n = 0
  // The first round warms up, and the ways take turns at being first.
  for (let round = 0; round <= 2 * sizes.rounds; round++) {
    for (const name of round % 2 === 0 ? names : [...names].reverse()) {
      const usage = await measure(server, [session], async () => {
        for (const end = n + sizes.publishes; n < end; n++) await ways[name](n)
      })
      if (round === 0) continue
      note(figures, `${name}, µs`, (usage.seconds * 1e6) / sizes.publishes)
      note(figures, `${name}, µs of processor`, (usage.nodeMicros + (usage.sessionMicros ?? 0)) / sizes.publishes)
    }
  }
  await leasehold.close()
  await pool.end()
  await database.drop()
}

function eventOf(n: number, keys = KEYS): NewEvent {
  return { type: 'order.paid', key: `order:${n % keys}`, data: DATA }
}

async function publishAll(leasehold: Leasehold, url: string, events: number, keys: number): Promise<void> {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const outbox = new Outbox(leasehold, { source: '/bench' })
  for (let from = 0; from < events; from += BULK) {
    const some = Array.from({ length: Math.min(BULK, events - from) }, (_, n) => eventOf(from + n, keys))
    await withTransaction(pool, (tx) => outbox.publishMany(tx, some))
  }
  await pool.query('vacuum analyze')
  await pool.end()
}

/** From the first handler to the last known outcome. */
async function perSecond(jobs: number, started: Promise<void>, completed: () => number): Promise<number> {
  await started
  const from = performance.now()
  while (completed() < jobs) await scheduler.wait(LOOK_AGAIN_MS)
  return (jobs * 1_000) / (performance.now() - from)
}

function signalled(): { readonly started: Promise<void>; start(): void } {
  let start = () => {}
  const started = new Promise<void>((resolve) => {
    start = resolve
  })
  return { started, start: () => start() }
}

async function relay(
  database: Database,
  events: number,
  keys: number,
  to = sink,
  transport: (start: () => void) => Transport = inProcess,
): Promise<number> {
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  const outbox = new Outbox(leasehold)
  await outbox.configure([to])
  await publishAll(leasehold, database.url, events, keys)
  const { started, start } = signalled()
  const made = outbox.relay([deliver(to, transport(start))], { signals: [] })
  const running = made.run()
  const rate = await perSecond(events, started, () => made.worker.tally.completed)
  await made.stop()
  await running
  await leasehold.close()
  return rate
}

async function relayed(database: Database, { events }: Sizes, figures: Figures): Promise<void> {
  note(figures, 'relay, events/s', await relay(database, events, KEYS))
}

async function hotKey(database: Database, { events }: Sizes, figures: Figures): Promise<void> {
  note(figures, 'relay of one hot key, events/s', await relay(database, Math.ceil(events / 10), 1))
}

async function drained(database: Database, { events }: Sizes, figures: Figures): Promise<void> {
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  for (let from = 0; from < events; from += BULK) {
    const some = Array.from({ length: Math.min(BULK, events - from) }, (_, n) => ({
      input: { id: '5c1a9b3e-6a3e-4d55-9f6c-111111111111', at: '2026-11-17T23:47:00.123456+00:00' },
      partitionKey: `order:${(from + n) % KEYS}`,
    }))
    await leasehold.enqueueMany(step, some)
  }
  await database.main.query('vacuum analyze')
  const { started, start } = signalled()
  const worker = leasehold.worker([handle(step, start)], { signals: [] })
  const running = worker.run()
  note(figures, 'ordered drain, jobs/s', await perSecond(events, started, () => worker.tally.completed))
  await worker.stop()
  await running
  await leasehold.close()
}

/** Relays that take turns behind one lock to claim, and delete each message by a statement of its own when it is sent. */
async function tookTurns(database: Database, { baseline }: Sizes, figures: Figures): Promise<void> {
  await database.main.query(FILL_BASELINE, [baseline, KEYS, JSON.stringify(DATA)])
  await database.main.query('vacuum analyze')
  let sent = 0
  const from = performance.now()
  const relays = Array.from({ length: TURN_TAKERS }, async () => {
    const client = new pg.Client(database.url)
    await client.connect()
    while (sent < baseline) {
      await client.query('begin')
      await client.query(TAKE_TURN)
      const { rows } = await client.query({ name: 'next', text: NEXT_MESSAGES, values: [TURN] })
      await client.query('commit')
      for (const { id } of rows) {
        await client.query({ name: 'delete', text: DELETE_MESSAGE, values: [id] })
        sent++
      }
    }
    await client.end()
  })
  await Promise.all(relays)
  note(figures, 'turns behind one lock, events/s', (baseline * 1_000) / (performance.now() - from))
}

function report(figures: Figures, json: boolean): void {
  const of = (name: string) => median(figures.get(name)!)
  for (const name of figures.keys()) console.log(`${name.padEnd(40)} ${of(name).toFixed(0)}`)
  const relayRate = of('relay, events/s')
  const bars = [
    {
      name: 'publish / (insert + ordered enqueue), time',
      value: of('publish, µs') / of('insert and enqueue, µs'),
      most: 1.3,
    },
    {
      name: 'publish / (insert + ordered enqueue), processor time',
      value: of('publish, µs of processor') / of('insert and enqueue, µs of processor'),
      most: 1.3,
    },
    { name: 'relay in process / ordered drain', value: relayRate / of('ordered drain, jobs/s'), least: 0.5 },
    {
      name: 'relay to NATS / a bare publisher in the same batches',
      value: of('relay to NATS, events/s') / of('bare publisher to NATS, events/s'),
      least: 0.5,
    },
    {
      name: 'relay in process / turns behind one lock',
      value: relayRate / of('turns behind one lock, events/s'),
      least: 5,
    },
  ].map(({ name, value, most = Number.POSITIVE_INFINITY, least = 0 }) => {
    const bar = most < Number.POSITIVE_INFINITY ? `at most ${most}` : `at least ${least}`
    return { name, value: Number(value.toFixed(3)), bar, holds: value <= most && value >= least }
  })
  for (const { name, value, bar, holds } of bars)
    console.log(`${name}: ${value} (${bar}: ${holds ? 'holds' : 'missed'})`)
  if (json) console.log(JSON.stringify({ bars }))
}
