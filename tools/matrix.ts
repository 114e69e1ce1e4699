// Runs the tests on several versions of PostgreSQL and Node, one pair after the other: `npm run matrix`.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { NODE_VERSIONS, type NodeVersion, nodeProgram } from './node.ts'
import { POSTGRES_VERSIONS, type PostgresVersion } from './postgres.ts'

const USAGE = `Usage: npm run matrix -- [--pg <versions>] [--node <versions>] [--list] [part of a path …]
  --pg     of ${POSTGRES_VERSIONS.join(', ')}, such as 14,18
  --node   of ${NODE_VERSIONS.join(', ')}, such as 22,24
  --list   print the pairs, and run nothing
With --pg or --node: every pair of these. Without: every PostgreSQL on the oldest Node, and every Node on the newest PostgreSQL.
Paths are those of \`npm run test:only\`.`
const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Pair {
  readonly pg: PostgresVersion
  readonly node: NodeVersion
}

interface Result extends Pair {
  readonly code: number
  readonly seconds: number
}

class UsageError extends Error {}

function readArguments() {
  try {
    const list = { type: 'string', multiple: true } as const
    const options = { pg: list, node: list, list: { type: 'boolean' } } as const
    return parseArgs({ allowPositionals: true, options })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function chosen<Version extends number>(option: string, given: string[], known: readonly Version[]): Version[] {
  return given
    .flatMap((text) => text.split(','))
    .map((text) => {
      const version = known.find((each) => String(each) === text)
      if (version === undefined) throw new UsageError(`There is no --${option} ${text}.`)
      return version
    })
}

function pairsOf(pg: string[] | undefined, node: string[] | undefined): Pair[] {
  const servers = pg === undefined ? POSTGRES_VERSIONS : chosen('pg', pg, POSTGRES_VERSIONS)
  const nodes = node === undefined ? NODE_VERSIONS : chosen('node', node, NODE_VERSIONS)
  const isEdge = (pair: Pair) => pair.node === NODE_VERSIONS[0] || pair.pg === POSTGRES_VERSIONS.at(-1)
  const all = servers.flatMap((server) => nodes.map((each) => ({ pg: server, node: each })))
  return pg === undefined && node === undefined ? all.filter(isEdge) : all
}

/** The exit code of a run of the tests. Programs that a test starts find the same Node first. */
async function runTests({ pg, node }: Pair, paths: string[], stopping: AbortSignal): Promise<number> {
  const program = await nodeProgram(node)
  const PATH = [dirname(program), process.env.PATH].join(delimiter)
  const child = spawn(program, ['--import', 'tsx', 'tools/test.ts', '--pg', String(pg), ...paths], {
    cwd: ROOT,
    env: { ...process.env, PATH, DATABASE_URL: undefined },
    stdio: 'inherit',
  })
  stopping.addEventListener('abort', () => child.kill(stopping.reason))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)))
  })
}

function tableOf(results: readonly Result[]): string {
  const rows = results.map(({ pg, node, code, seconds }) => [
    String(pg),
    String(node),
    code === 0 ? 'passed' : `failed (${code})`,
    `${Math.round(seconds)} s`,
  ])
  const titles = ['PostgreSQL', 'Node', 'tests', 'took']
  const widths = titles.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)))
  return [titles, ...rows]
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

async function main(): Promise<number> {
  const { values, positionals } = readArguments()
  const pairs = pairsOf(values.pg, values.node)
  if (values.list) {
    for (const { pg, node } of pairs) console.log(`PostgreSQL ${pg}, Node ${node}`)
    return 0
  }
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort(signal))
  const results: Result[] = []
  for (const pair of pairs) {
    if (stopping.signal.aborted) break
    console.log(`\nPostgreSQL ${pair.pg}, Node ${pair.node}`)
    const began = performance.now()
    const code = await runTests(pair, positionals, stopping.signal)
    if (code === 2) return code // The paths match no file. It has printed so.
    results.push({ ...pair, code, seconds: (performance.now() - began) / 1_000 })
  }
  console.log(`\n${tableOf(results)}`)
  return results.length === pairs.length && results.every(({ code }) => code === 0) ? 0 : 1
}

try {
  process.exitCode = await main()
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(`${error.message}\n${USAGE}`)
  process.exitCode = 2
}
