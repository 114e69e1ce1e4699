/**
 * The environment of a run: a server with a standby, behind a proxy that breaks things, with PgBouncer in front for some.
 * The processes use a role of their own, so that the harness can connect when they have used up all connections.
 */
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Leasehold, queue } from '../../src/index.ts'
import { ASSERTIONS } from '../../tools/assertions.sql.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { memoryDirectory } from '../../tools/memory-directory.ts'
import { type PgBouncer, startPgBouncer } from '../../tools/pgbouncer.ts'
import { type PostgresOptions, type PostgresServer, startPostgres } from '../../tools/postgres.ts'
import { PRIMARY, type Standby, startStandby } from '../../tools/standby.ts'
import { Witness } from '../common/witness.ts'
import { WORKLOADS } from './workloads/all.ts'

const DATABASE = 'chaos'
/** Of the processes. */
export const ROLE = 'app'
/** Identifies sessions of the harness itself. */
const OURS = 'chaos harness'

/** A crash of the server loses nothing; a crash of the machine may, and ends the run anyway. */
const SETTINGS = { fsync: 'off', max_connections: '90', ...PRIMARY }

export interface World {
  readonly witness: Witness
  /** Of the witness files. It stays when the run is over. */
  readonly directory: string
  /** Of the processes, through the proxy. */
  readonly url: string
  /** The same through PgBouncer; undefined where there is none. */
  readonly pooledUrl: string | undefined
  readonly proxy: FaultyProxy
  /** A superuser's, past the proxy, at the server of the moment. */
  readonly admin: pg.Pool
  /** Past the proxy, at the server of the moment. */
  readonly leasehold: Leasehold
  /** A session of the role of the processes, past the proxy. Not connected yet. */
  client(): pg.Client
  crash(): Promise<void>
  /** Commits from some moment on are acknowledged and lost. Returns whether that happened. */
  failOver(loseForMs: number): Promise<boolean>
  /** PgBouncer keeps its sessions open when its clients are gone. */
  stopPooler(): Promise<void>
  /** Copies the server of the moment. */
  makeStandby(): Promise<void>
  stop(): Promise<void>
}

export async function createWorld(options: { readonly standby: boolean }): Promise<World> {
  const within = memoryDirectory()
  const postgres: PostgresOptions = { settings: SETTINGS, ...(within === undefined ? {} : { within }) }
  const started: PostgresServer[] = [await startPostgres(postgres)]
  let primary = started[0]!
  let bouncer: PgBouncer | undefined
  let poolerMayEnd = false
  let standby: Standby | undefined
  const target = { host: '127.0.0.1', port: primary.port }
  const proxy = await startFaultyProxy(target)
  const directory = fs.mkdtempSync(join(tmpdir(), 'leasehold-chaos-'))
  const witness = new Witness(directory, 'harness')
  let admin = poolAt(primary.url, 'postgres')
  await admin.query(`create role ${ROLE} login`)
  await admin.query(`create database ${DATABASE} owner ${ROLE}`)
  await admin.end()
  admin = poolAt(primary.url, DATABASE)
  const urlOf = (server: string) => Object.assign(new URL(server), { username: ROLE, pathname: DATABASE }).href
  const url = proxy.url(urlOf(primary.url))
  let leasehold = await prepared(urlOf(primary.url), admin)

  const stopPooler = async () => {
    poolerMayEnd = true
    await bouncer?.stop()
  }
  // Some versions end by themselves when a cancel request comes at the wrong moment. As a service they are started again.
  const startPooler = async (port?: number) => {
    bouncer = await startPgBouncer({ url, poolSize: 12, ...(port === undefined ? {} : { port }) })
    const at = Number(new URL(bouncer.url).port)
    void bouncer.ended.then((output) => {
      if (poolerMayEnd) return
      witness.write('pooler ended', { output: output.slice(-500) })
      void startPooler(at).catch(() => {})
    })
  }
  const stop = async () => {
    await leasehold.close()
    await admin.end()
    await stopPooler()
    await proxy.stop()
    for (const server of started.toReversed()) await server.stop()
    witness.close()
  }
  const makeStandby = async () => {
    standby = await startStandby(primary, postgres)
    started.push(standby)
  }
  try {
    if (options.standby) await makeStandby()
    await startPooler().catch(() => {})
  } catch (error) {
    await stop()
    throw error
  }

  return {
    witness,
    directory,
    url,
    pooledUrl: bouncer?.url,
    proxy,
    get admin() {
      return admin
    },
    get leasehold() {
      return leasehold
    },
    client: () => new pg.Client({ connectionString: urlOf(primary.url), connectionTimeoutMillis: 10_000 }),
    crash: () => primary.restart('immediate'),
    makeStandby,
    stopPooler,
    failOver: async (loseForMs) => {
      if (standby === undefined) return false
      const next = standby
      standby = undefined
      // WAL is lost from some point on, never from the middle. So commits before the first mark survive.
      const from = Date.now()
      await mark(admin, 'kept')
      const replica = poolAt(next.url, DATABASE)
      for (let look = 0; (await marks(replica)).length === 0 && look < 500; look++) await pause(10)
      await replica.end()
      next.replication.freeze()
      await mark(admin, 'lost')
      await pause(loseForMs)
      await Promise.all([leasehold.close(), admin.end()])
      await primary.crash()
      await next.promote()
      primary = next
      target.port = next.port
      proxy.cut()
      admin = poolAt(next.url, DATABASE)
      leasehold = new Leasehold({ pool: admin, log: () => {} })
      witness.write('tail', { from, to: Date.now() })
      const found = await marks(admin)
      await admin.query('delete from chaos.mark')
      return found.join() === 'kept'
    },
    stop,
  }
}

async function prepared(url: string, admin: pg.Pool): Promise<Leasehold> {
  const owner = new Leasehold({ connectionString: url, log: () => {} })
  await owner.migrate()
  const queues = WORKLOADS.flatMap((workload) => Object.entries(workload.queues ?? {}))
  await owner.configure(queues.map(([name, options]) => queue(name, options)))
  await owner.close()
  const tables = WORKLOADS.map((workload) => workload.tables ?? '').join('\n')
  const client = new pg.Client(url)
  await client.connect()
  await client.query(ASSERTIONS)
  await client.query(`create schema chaos; create table chaos.mark (fate text); ${tables}`)
  await client.end()
  return new Leasehold({ pool: admin, log: () => {} })
}

/** May write even while the server is read-only for all other roles. */
function poolAt(server: string, database: string): pg.Pool {
  const connectionString = Object.assign(new URL(server), { pathname: database }).href
  const options = '-c default_transaction_read_only=off'
  const pool = new pg.Pool({ connectionString, application_name: OURS, options, max: 6 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

async function mark(pool: pg.Pool, fate: 'kept' | 'lost'): Promise<void> {
  await pool.query('insert into chaos.mark values ($1)', [fate])
}

async function marks(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query('select fate from chaos.mark order by fate')
  return rows.map(({ fate }) => fate)
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Sessions of the processes. */
export async function sessions({ admin }: Pick<World, 'admin'>): Promise<number> {
  const { rows } = await admin.query('select count(*)::int from pg_stat_activity where usename = $1', [ROLE])
  return rows[0].count
}
