/** The environment of a run: a server, and a proxy that breaks things for each worker and for the starters. */
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Leasehold } from '../../src/index.ts'
import { ASSERTIONS } from '../../tools/assertions.sql.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { memoryDirectory } from '../../tools/memory-directory.ts'
import { startPostgres } from '../../tools/postgres.ts'
import { Witness } from '../common/witness.ts'
import { WORKERS } from './plan.ts'

const DATABASE = 'chaos'
/** Of the processes. */
const ROLE = 'app'

/** A crash of the server loses nothing; a crash of the machine may, and ends the run anyway. */
const SETTINGS = { fsync: 'off', max_connections: '150' }

/** Nothing in them prevents a second effect, so that it can be seen. */
const TABLES = `create schema chaos;
  create table chaos.started (run text not null, process text not null);
  create table chaos.sent (run text not null, name text not null);
  create table chaos.effect (position bigint generated always as identity, run text not null, name text not null, i integer not null,
    execution text not null)`

export interface World {
  readonly witness: Witness
  /** Of the witness files. It stays when the run is over. */
  readonly directory: string
  /** Of the database, without a proxy. */
  readonly url: string
  /** One for each worker. */
  readonly workers: readonly FaultyProxy[]
  readonly starters: FaultyProxy
  /** Past the proxies, as a superuser. */
  readonly admin: pg.Pool
  crash(): Promise<void>
  calm(): void
  stop(): Promise<void>
}

export async function createWorld(): Promise<World> {
  const undo: (() => unknown)[] = []
  const stop = async () => {
    for (const each of undo.splice(0).toReversed()) await each()
  }
  try {
    return await opened(undo, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

async function opened(undo: (() => unknown)[], stop: () => Promise<void>): Promise<World> {
  const within = memoryDirectory()
  const postgres = await startPostgres({ settings: SETTINGS, ...(within === undefined ? {} : { within }) })
  undo.push(() => postgres.stop())
  const directory = fs.mkdtempSync(join(tmpdir(), 'leasehold-chaos-'))
  const witness = new Witness(directory, 'harness')
  undo.push(() => witness.close())
  const proxied = async () => {
    const proxy = await startFaultyProxy({ host: '127.0.0.1', port: postgres.port })
    undo.push(() => proxy.stop())
    return proxy
  }
  const workers: FaultyProxy[] = []
  for (let worker = 0; worker < WORKERS; worker++) workers.push(await proxied())
  const starters = await proxied()
  await withClient(postgres.url, async (admin) => {
    await admin.query(`create role ${ROLE} login`)
    await admin.query(`create database ${DATABASE} owner ${ROLE}`)
  })
  const url = Object.assign(new URL(postgres.url), { username: ROLE, pathname: DATABASE }).href
  await prepare(url)
  const connectionString = Object.assign(new URL(postgres.url), { pathname: DATABASE }).href
  const admin = new pg.Pool({ connectionString, application_name: 'chaos harness', max: 4 })
  admin.on('error', () => {})
  admin.on('connect', (client) => client.on('error', () => {}))
  undo.push(() => admin.end())
  return {
    witness,
    directory,
    url,
    workers,
    starters,
    admin,
    crash: () => postgres.restart('immediate'),
    calm: () => {
      for (const proxy of [...workers, starters]) proxy.thaw()
    },
    stop,
  }
}

async function prepare(url: string): Promise<void> {
  const leasehold = new Leasehold({ connectionString: url, log: () => {} })
  await leasehold.migrate()
  await leasehold.configure([])
  await leasehold.close()
  await withClient(url, async (owner) => {
    await owner.query(ASSERTIONS)
    await owner.query(TABLES)
  })
}

async function withClient(url: string, use: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await use(client).finally(() => client.end())
}
