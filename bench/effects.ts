/**
 * What the safe way costs beside the bare one: a transition beside the UPDATE it is made of, a guarded write beside the look
 * and the insert it guards. One connection, one statement at a time, durable commits, the ways taking turns. Every figure is
 * a median over the rounds; a statement is a round trip.
 */
import pg from 'pg'
import { statusTable, WriteGuard } from '../src/tables/index.ts'
import { readOptions, runOrExplain } from './arguments.ts'
import { measure } from './floor/measure.ts'
import { BenchServer } from './server.ts'
import { median } from './statistics.ts'

const USAGE = `Usage: npm run bench:effects -- [options]
  --quick  a few rows and rounds, to see that everything runs.
  --json   one line of JSON, the last of the output.`

const summaries = statusTable('summary', { columns: ['result'] })

const SET_UP = [
  `create table summary (id integer primary key, status text not null default 'pending', result text)`,
  ...summaries.sql().split(';'),
  'insert into summary (id) select generate_series(1, 200000)',
  'create table incident (id bigint generated always as identity primary key, entity_id integer not null)',
  'create index on incident (entity_id)',
  'vacuum analyze',
]

const UPDATE = `update summary set status = 'completed', result = $2 where id = $1 and status = 'pending'`
const OPEN = 'select id from incident where entity_id = $1'
const INSERT = 'insert into incident (entity_id) values ($1)'

type Way = (pool: pg.Pool, guard: WriteGuard, id: number) => Promise<unknown>

const openIncidents = async (db: pg.Pool | pg.ClientBase, id: number): Promise<string[]> =>
  (await db.query(OPEN, [id])).rows.map((row) => row.id)

const WAYS = {
  'bare update': (pool, _, id) => pool.query({ name: 'bare', text: UPDATE, values: [id, 'a summary'] }),
  transition: (pool, _, id) => summaries.transition(pool, id, 'pending', 'completed', { result: 'a summary' }),
  'look and insert': async (pool, _, id) => {
    await openIncidents(pool, id)
    await pool.query(INSERT, [id])
  },
  'guarded write': (_, guard, id) =>
    guard.run({
      site: 'bench',
      lock: `entity:${id}`,
      seen: [],
      reread: (tx) => openIncidents(tx, id),
      write: (tx) => tx.query(INSERT, [id]),
    }),
} satisfies Record<string, Way>

type Name = keyof typeof WAYS
const NAMES = Object.keys(WAYS) as Name[]

interface Figures {
  readonly micros: number[]
  readonly processorMicros: number[]
  statements: number
}

async function run({ quick, json }: { quick: boolean; json: boolean }): Promise<void> {
  const { rows, rounds } = quick ? { rows: 300, rounds: 2 } : { rows: 2_000, rounds: 20 }
  const figures = new Map<Name, Figures>(
    NAMES.map((name) => [name, { micros: [], processorMicros: [], statements: 0 }]),
  )
  const server = await BenchServer.start(18)
  try {
    const database = await server.clone('effects', async (main) => {
      for (const statement of SET_UP) if (statement.trim() !== '') await main.query(statement)
    })
    const pool = new pg.Pool({ connectionString: database.url, max: 1 })
    const session = { client: database.main, pid: (await pool.query('select pg_backend_pid() as pid')).rows[0].pid }
    const counted = countStatements(pool)
    const guard = new WriteGuard(pool)
    let next = 1
    // The first round warms up, and the ways take turns at being first.
    for (let round = 0; round <= rounds; round++) {
      for (const name of round % 2 === 0 ? NAMES : [...NAMES].reverse()) {
        const before = counted()
        const usage = await measure(server, [session], async () => {
          for (const end = next + rows; next < end; next++) await WAYS[name](pool, guard, next)
        })
        if (round === 0) continue
        const own = figures.get(name)!
        own.statements = (counted() - before) / rows
        own.micros.push((usage.seconds * 1e6) / rows)
        own.processorMicros.push((usage.nodeMicros + (usage.sessionMicros ?? 0)) / rows)
      }
    }
    await pool.end()
    await database.drop()
  } finally {
    await server.stop()
  }
  report(figures, json)
}

/** Every statement of the pool's one connection. */
function countStatements(pool: pg.Pool): () => number {
  let count = 0
  pool.on('acquire', (client) => {
    const own = client as pg.PoolClient & { counts?: true }
    if (own.counts) return
    own.counts = true
    const query = own.query.bind(own) as (...args: unknown[]) => unknown
    own.query = ((...args: unknown[]) => {
      count++
      return query(...args)
    }) as typeof own.query
  })
  return () => count
}

function report(figures: ReadonlyMap<Name, Figures>, json: boolean): void {
  const of = (name: Name) => {
    const { micros, processorMicros, statements } = figures.get(name)!
    return { statements, micros: median(micros), processorMicros: median(processorMicros) }
  }
  for (const name of NAMES) {
    const { statements, micros, processorMicros } = of(name)
    const said = [
      `${statements} statement(s)`,
      `${micros.toFixed(0)} µs`,
      `${processorMicros.toFixed(0)} µs of processor`,
    ]
    console.log(`${name.padEnd(16)} ${said.join(', ')}`)
  }
  const [bare, transition, plain, guarded] = NAMES.map(of)
  const bars = [
    { name: 'transition / bare update, time', value: transition!.micros / bare!.micros, bar: 1.15 },
    {
      name: 'transition / bare update, processor time',
      value: transition!.processorMicros / bare!.processorMicros,
      bar: 1.15,
    },
    { name: 'guarded write − look and insert, round trips', value: guarded!.statements - plain!.statements, bar: 3 },
  ].map(({ name, value, bar }) => ({ name, value: Number(value.toFixed(3)), bar, holds: value <= bar }))
  for (const { name, value, bar, holds } of bars) {
    console.log(`${name}: ${value} (at most ${bar}: ${holds ? 'holds' : 'missed'})`)
  }
  if (json) console.log(JSON.stringify({ bars }))
}

await runOrExplain(() => {
  const flag = { type: 'boolean', default: false } as const
  return run(readOptions({ quick: flag, json: flag }))
}, USAGE)
