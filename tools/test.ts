// Runs the tests: `tsx tools/test.ts [--pg 15] [part of a path …]`.
// One PostgreSQL for the run, or the one of DATABASE_URL; one migrated template, which every test file clones.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { availableParallelism, constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { migrate } from '../src/db/migrate.ts'
import { ASSERTIONS } from './assertions.sql.ts'
import { memoryDirectory } from './memory-directory.ts'
import { POSTGRES_VERSIONS, type PostgresVersion, startPostgres } from './postgres.ts'

const USAGE = `Usage: tsx tools/test.ts [--pg <${POSTGRES_VERSIONS.join('|')}>] [part of a path …]
  --pg   the PostgreSQL version to start; 18 unless given. Not with DATABASE_URL, which names a server that runs.
Without a path: all but the tests of demos (\`npm run test:demos\`), of the package and the examples (\`npm run test:package\`), of crashes
(\`npm run test:crashes\`), of adapters (\`npm run test:adapters\`), of the command as a process (\`npm run test:cli\`), of two releases on one schema (\`npm run test:deploy\`), of fleets of processes (\`npm run test:fleet\`) and those that need a broker (\`npm run test:sqs\`,
\`npm run test:brokers\`).`
/** They need more than PostgreSQL, install Prisma, build the package, run a demo, an example, another release or many processes, end processes and servers, or sweep over all statements of a run. */
const APART =
  /^test\/(adapters\/|sqs\/|brokers\/|chaos\/sqs|demo|package|examples|cli\/process|deploy\/|fleet\/(processes|options)|order\/processes|failover\/|worker\/(away|effects-killed|killed|paused|poison|restart)|workflow\/crash-points|testing\/kill-at)/
const ROOT = fileURLToPath(new URL('..', import.meta.url))

// The data lives for one run, so durability gains nothing.
const FAST = {
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'off',
  max_connections: '200',
  max_prepared_transactions: '10',
}

/** Of a test, and of a whole file: with Node each file is a test of its own. */
const HANGS_AFTER_MS = 600_000

interface Server {
  url: string
  stop(): Promise<void>
}

class UsageError extends Error {}

function readArguments(): { version: PostgresVersion | undefined; files: string[] } {
  const { values, positionals } = parsed()
  const version = POSTGRES_VERSIONS.find((each) => String(each) === values.pg)
  if (values.pg !== undefined && version === undefined) throw new UsageError(`There is no --pg ${values.pg}.`)
  if (version !== undefined && process.env.DATABASE_URL)
    throw new UsageError('--pg and DATABASE_URL exclude each other.')

  const all = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .map((path) => `test/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.test.ts'))
    .sort()
  const isMeant = (path: string) => positionals.some((part) => path.includes(part))
  const files = all.filter((path) => (positionals.length === 0 ? !APART.test(path) : isMeant(path)))
  if (files.length === 0) throw new UsageError(`None of the ${all.length} test files matches: ${positionals.join(' ')}`)
  return { version, files }
}

function parsed() {
  try {
    return parseArgs({ allowPositionals: true, options: { pg: { type: 'string' } } })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

async function server(version: PostgresVersion | undefined): Promise<Server> {
  const url = process.env.DATABASE_URL
  if (url) return { url, stop: async () => {} }
  const within = memoryDirectory()
  return startPostgres({
    settings: FAST,
    ...(version === undefined ? {} : { version }),
    ...(within === undefined ? {} : { within }),
  })
}

async function withClient<Result>(url: string, use: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

async function makeTemplate(adminUrl: string, name: string): Promise<void> {
  await withClient(adminUrl, (admin) => admin.query(`create database ${name} template template0`))
  const url = new URL(adminUrl)
  url.pathname = name
  await withClient(url.href, async (client) => {
    await migrate(client)
    await client.query(ASSERTIONS)
  })
  // No session may connect from here on: it stays pristine, and a clone never finds it in use.
  await withClient(adminUrl, (admin) => admin.query(`alter database ${name} with allow_connections false`))
}

/** The template and every clone of this run, also those of test files that died before they could drop theirs. */
async function dropDatabases(adminUrl: string, template: string): Promise<void> {
  await withClient(adminUrl, async (admin) => {
    const { rows } = await admin.query<{ datname: string }>(
      `select datname from pg_database where datname = $1 or starts_with(datname, $1 || '_')`,
      [template],
    )
    for (const { datname } of rows) await admin.query(`drop database if exists ${datname} with (force)`)
  })
}

function runTests(files: string[], env: Record<string, string>, stopping: AbortSignal): Promise<number> {
  const flags = [
    '--import',
    'tsx',
    '--test',
    `--test-concurrency=${availableParallelism()}`,
    `--test-timeout=${HANGS_AFTER_MS}`,
    '--test-reporter=spec',
  ]
  const child = spawn(process.execPath, [...flags, ...files], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    stdio: 'inherit',
  })
  stopping.addEventListener('abort', () => child.kill(stopping.reason))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)))
  })
}

async function main(): Promise<number> {
  const { version, files } = readArguments()
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort(signal))

  const { url, stop } = await server(version)
  const template = `leasehold_test_${process.pid}_${randomBytes(4).toString('hex')}`
  try {
    await makeTemplate(url, template)
    const env = { LEASEHOLD_TEST_URL: url, LEASEHOLD_TEST_TEMPLATE: template }
    const code = stopping.signal.aborted ? 1 : await runTests(files, env, stopping.signal)
    // A run that was interrupted is not a success, even if the last test file had just ended.
    return stopping.signal.aborted ? 128 + constants.signals[stopping.signal.reason as NodeJS.Signals] : code
  } finally {
    // Our own server takes its databases with it.
    if (process.env.DATABASE_URL) await dropDatabases(url, template)
    await stop()
  }
}

try {
  process.exitCode = await main()
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(`${error.message}\n${USAGE}`)
  process.exitCode = 2
}
