/** Runs of three steps, beside DBOS and, if its tables are given, Absurd: runs a second, and processor time a step, Node and database. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { contendersNode } from '../packages.ts'
import { serverMicros } from '../processors.ts'
import type { BenchServer } from '../server.ts'
import { median } from '../statistics.ts'
import { atLeast, atMost, type Bar } from '../weather/bar.ts'
import type { Took } from './child.ts'

const CHILD = fileURLToPath(new URL('child.ts', import.meta.url))
const STEPS = 3
type Peer = 'dbos' | 'absurd'
type Name = 'leasehold' | Peer
const TITLES: Readonly<Record<Peer, string>> = { dbos: 'DBOS', absurd: 'Absurd' }

export interface PeerSizes {
  readonly rounds: number
  readonly warmUp: number
  readonly runs: Readonly<Record<Name, number>>
}

interface Figures {
  readonly runsPerSecond: number
  readonly microsPerStep: number
}

/** `absurdTables` is the text of Absurd's sql/absurd.sql. Without it Absurd is left out. */
export async function peers(
  server: BenchServer,
  sizes: PeerSizes,
  absurdTables: string | undefined,
  say: (text: string) => void,
): Promise<Bar[]> {
  const others: readonly Peer[] = absurdTables === undefined ? ['dbos'] : ['dbos', 'absurd']
  const engines: readonly Name[] = ['leasehold', ...others]
  const figures: Record<Name, Figures[]> = { leasehold: [], dbos: [], absurd: [] }
  for (let round = 0; round < sizes.rounds; round++) {
    for (const name of round % 2 === 0 ? engines : engines.toReversed()) {
      const measured = await measure(server, name, sizes, name === 'absurd' ? absurdTables : undefined)
      figures[name].push(measured)
      const { runsPerSecond, microsPerStep } = measured
      say(
        `workflow, round ${round + 1}: ${name} ${Math.round(runsPerSecond)} runs/s, ${Math.round(microsPerStep)} µs a step`,
      )
    }
  }
  const of = (name: Name, measure: keyof Figures) => median(figures[name].map((each) => each[measure]))
  return others.flatMap((peer) => {
    const speed = of('leasehold', 'runsPerSecond') / of(peer, 'runsPerSecond')
    const cost = of('leasehold', 'microsPerStep') / of(peer, 'microsPerStep')
    return [
      atLeast(`runs of three steps a second ÷ ${TITLES[peer]}`, speed, 'times', 3),
      atMost(`processor time a step ÷ ${TITLES[peer]}`, cost, 'times', 0.5),
    ]
  })
}

async function measure(server: BenchServer, name: Name, sizes: PeerSizes, tables?: string): Promise<Figures> {
  const database = await server.clone(tables === undefined ? 'empty' : name, async (main) => {
    if (tables !== undefined) await main.query(tables)
  })
  const execArgv = ['--disable-warning=ExperimentalWarning']
  const stdio = ['ignore', 2, 2, 'ipc'] as ['ignore', 2, 2, 'ipc']
  const child = fork(CHILD, [name, database.url], { execPath: contendersNode(), execArgv, stdio })
  const exited = once(child, 'exit')
  try {
    await answer(child)
    await ask(child, sizes.warmUp)
    const before = serverMicros(server.postmaster)
    const { seconds, nodeMicros } = await ask(child, sizes.runs[name])
    const databaseMicros = (serverMicros(server.postmaster) ?? 0) - (before ?? 0)
    const runs = sizes.runs[name]
    return { runsPerSecond: runs / seconds, microsPerStep: (nodeMicros + databaseMicros) / (runs * STEPS) }
  } finally {
    child.disconnect()
    await exited
    await database.drop()
  }
}

function ask(child: ChildProcess, runs: number): Promise<Took> {
  child.send(runs)
  return answer(child) as Promise<Took>
}

async function answer(child: ChildProcess): Promise<unknown> {
  const died = once(child, 'exit').then(([code]) => {
    throw new Error(`its process ended early (${code})`)
  })
  const [message] = await Promise.race([once(child, 'message'), died])
  return message
}
