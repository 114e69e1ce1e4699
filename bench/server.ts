/**
 * One PostgreSQL for the run, durable and otherwise as it comes. Every measurement has a database of its own, cloned from
 * a template that is prepared once, so that no run finds the dead rows or the statistics of another.
 */
import pg from 'pg'
import { type PostgresServer, type PostgresVersion, startPostgres } from '../tools/postgres.ts'
import { FILL_LOG } from './burdens.sql.ts'
import { processMicros, serverMicros } from './processors.ts'

const SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '512MB',
  // Checkpoints come when the benchmark asks for one. Log segments are reused rather than made anew in a backend's time (fillLog).
  max_wal_size: '8GB',
  min_wal_size: '2GB',
  checkpoint_timeout: '30min',
}

/** A backend and the process it is. */
export interface Session {
  readonly client: pg.Client
  readonly pid: number
}

export interface Database {
  readonly url: string
  readonly main: pg.Client
  connect(): Promise<Session>
  close(sessions: readonly Session[]): Promise<void>
  drop(): Promise<void>
}

export class BenchServer {
  readonly #server: PostgresServer
  readonly admin: pg.Client
  readonly version: string
  /** Whether the log can be read back, to separate page images from the rest. */
  readonly canReadWal: boolean
  readonly #templates = new Set<string>()
  /** The backends that the benchmark asks its own questions of. */
  readonly #observers = new Set<number>()
  #clones = 0

  private constructor(server: PostgresServer, admin: pg.Client, version: string, canReadWal: boolean) {
    this.#server = server
    this.admin = admin
    this.version = version
    this.canReadWal = canReadWal
  }

  static async start(version: PostgresVersion, more: Readonly<Record<string, string>> = {}): Promise<BenchServer> {
    const server = await startPostgres({ version, settings: { ...SETTINGS, ...more } })
    const admin = new pg.Client(server.url)
    await admin.connect()
    const canReadWal = await admin.query('create extension pg_walinspect').then(
      () => true,
      () => false,
    )
    const { rows } = await admin.query('show server_version')
    const bench = new BenchServer(server, admin, rows[0].server_version, canReadWal)
    await bench.#observe(admin)
    return bench
  }

  get postmaster(): number {
    return this.#server.pids.postmaster
  }

  /**
   * Processor time of all processes of the server but those that serve the benchmark's own questions: how many jobs are left is a
   * scan of the whole table, asked several times at the end of a drain. Only differences mean anything.
   */
  micros(): number | null {
    const all = serverMicros(this.postmaster)
    if (all === null) return null
    return [...this.#observers].reduce((rest, pid) => rest - (processMicros(pid) ?? 0), all)
  }

  /** Makes segments of the log, so that each run finds some to reuse, as on a server that has run for a while. */
  async fillLog(): Promise<void> {
    await this.admin.query(FILL_LOG)
    await this.admin.query('checkpoint')
  }

  async stop(): Promise<void> {
    await this.admin.end()
    await this.#server.stop()
  }

  /** For every session, from now on. */
  async configure(setting: string, value: string): Promise<void> {
    await this.admin.query(`alter system set ${setting} = ${value}`)
    await this.admin.query('select pg_reload_conf()')
  }

  /** A clone of the template of that name, which `prepare` fills when it is first asked for. */
  async clone(template: string, prepare: (main: pg.Client, url: string) => Promise<void>): Promise<Database> {
    const source = templateName(template)
    if (!this.#templates.has(source)) {
      await this.admin.query(`create database ${source}`)
      const main = await this.#client(source)
      await prepare(main, this.#url(source))
      await main.end()
      this.#templates.add(source)
    }
    const name = `clone_${++this.#clones}`
    await this.admin.query(`create database ${name} template ${source} ${await this.#strategy(source)}`)
    const main = await this.#client(name)
    const observer = await this.#observe(main)
    return {
      url: this.#url(name),
      main,
      connect: async () => {
        const client = await this.#client(name)
        return { client, pid: await backendOf(client) }
      },
      close: async (sessions) => {
        await Promise.all(sessions.map(({ client }) => client.end()))
      },
      drop: async () => {
        this.#observers.delete(observer)
        await main.end()
        await this.admin.query(`drop database ${name} with (force)`)
      },
    }
  }

  async forget(template: string): Promise<void> {
    const source = templateName(template)
    if (this.#templates.delete(source)) await this.admin.query(`drop database ${source} with (force)`)
  }

  /** Small databases are cloned page by page through the log; of large ones the files are copied. */
  async #strategy(source: string): Promise<string> {
    const { rows } = await this.admin.query(
      `select current_setting('server_version_num')::int >= 150000 and pg_database_size($1) > 32000000 as copy`,
      [source],
    )
    return rows[0].copy ? 'strategy file_copy' : ''
  }

  /** A session that does not share its work with other processes, which would not be known here. */
  async #observe(client: pg.Client): Promise<number> {
    await client.query('set max_parallel_workers_per_gather = 0')
    const pid = await backendOf(client)
    this.#observers.add(pid)
    return pid
  }

  async #client(database: string): Promise<pg.Client> {
    const client = new pg.Client(this.#url(database))
    // Should a scenario throw, the server stops under its open sessions; their errors are ignored.
    client.on('error', () => {})
    await client.connect()
    return client
  }

  #url(database: string): string {
    const url = new URL(this.#server.url)
    url.pathname = database
    return url.href
  }
}

async function backendOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('select pg_backend_pid() as pid')
  return rows[0].pid
}

function templateName(name: string): string {
  return `template_${name.replaceAll('-', '_')}`
}
