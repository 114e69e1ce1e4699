/**
 * What the safe way costs beside the bare one: a transition beside the UPDATE it is made of. One connection, one statement
 * at a time, durable commits, the two taking turns on rows of one table. Every figure is a median over the rounds.
 */
import { statusTable } from '../src/index.ts'
import { readOptions, runOrExplain } from './arguments.ts'
import { measure } from './floor/measure.ts'
import { BenchServer, type Session } from './server.ts'
import { median } from './statistics.ts'

const USAGE = `Usage: npm run bench:effects -- [options]
  --quick  a few rows and rounds, to see that everything runs.
  --json   one line of JSON, the last of the output.`

const summaries = statusTable('summary', { columns: ['result'] })

const SET_UP = `
  create table summary (id integer primary key, status text not null default 'pending', result text);
  ${summaries.sql()}
  insert into summary (id) select generate_series(1, 1000000);
  vacuum analyze summary`

const BARE = `update summary set status = 'completed', result = $2 where id = $1 and status = 'pending'`

type Way = (session: Session, id: number) => Promise<unknown>

const WAYS: Readonly<Record<'bare' | 'transition', Way>> = {
  bare: ({ client }, id) => client.query({ name: 'bare', text: BARE, values: [id, 'a summary'] }),
  transition: ({ client }, id) => summaries.transition(client, id, 'pending', 'completed', { result: 'a summary' }),
}

interface Figures {
  readonly microsPerRow: number[]
  readonly processorMicrosPerRow: number[]
}

async function run({ quick, json }: { quick: boolean; json: boolean }): Promise<void> {
  const { rows, rounds } = quick ? { rows: 500, rounds: 3 } : { rows: 5_000, rounds: 15 }
  const server = await BenchServer.start(18)
  const figures = new Map<string, Figures>()
  try {
    const database = await server.clone('effects', async (main) => {
      for (const statement of SET_UP.split(';')) if (statement.trim() !== '') await main.query(statement)
    })
    const session = await database.connect()
    let next = 1
    // The first round warms up, and the ways take turns at being first.
    for (let round = 0; round <= rounds; round++) {
      const ways = Object.entries(WAYS)
      if (round % 2 === 1) ways.reverse()
      for (const [name, way] of ways) {
        const usage = await measure(server, [session], async () => {
          for (const end = next + rows; next < end; next++) await way(session, next)
        })
        const own = figures.get(name) ?? { microsPerRow: [], processorMicrosPerRow: [] }
        figures.set(name, own)
        if (round === 0) continue
        own.microsPerRow.push((usage.seconds * 1e6) / rows)
        own.processorMicrosPerRow.push((usage.nodeMicros + (usage.sessionMicros ?? 0)) / rows)
      }
    }
    await database.close([session])
    await database.drop()
  } finally {
    await server.stop()
  }
  report(figures, json)
}

function report(figures: ReadonlyMap<string, Figures>, json: boolean): void {
  const of = (name: string) => {
    const { microsPerRow, processorMicrosPerRow } = figures.get(name)!
    return { micros: median(microsPerRow), processorMicros: median(processorMicrosPerRow) }
  }
  for (const name of figures.keys()) {
    const { micros, processorMicros } = of(name)
    console.log(
      `${name.padEnd(12)} ${micros.toFixed(0).padStart(5)} µs a row, ${processorMicros.toFixed(0)} µs of processor`,
    )
  }
  const ratios = (['micros', 'processorMicros'] as const).map((what) => {
    const ratio = of('transition')[what] / of('bare')[what]
    const name = `transition / bare UPDATE, ${what === 'micros' ? 'time' : 'processor time'}`
    return { name, ratio: Number(ratio.toFixed(3)), bar: 1.15, holds: ratio <= 1.15 }
  })
  for (const { name, ratio, bar, holds } of ratios) {
    console.log(`${name}: ${ratio} (bar: at most ${bar}, ${holds ? 'holds' : 'missed'})`)
  }
  if (json) console.log(JSON.stringify({ ratios }))
}

await runOrExplain(() => {
  const flag = { type: 'boolean', default: false } as const
  return run(readOptions({ quick: flag, json: flag }))
}, USAGE)
