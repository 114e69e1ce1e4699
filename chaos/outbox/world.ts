/**
 * The environment of a run: a server with a database that publishes and one that receives, a nats-server and an SQS, each behind a
 * proxy that breaks things.
 */
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NatsConnection } from '@nats-io/transport-node'
import pg from 'pg'
import { Leasehold } from '../../src/index.ts'
import { Outbox } from '../../src/outbox/index.ts'
import { ASSERTIONS } from '../../tools/assertions.sql.ts'
import { type FaultyProxy, startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { type FaultRule, type FaultySqs, startFaultySqs } from '../../tools/faulty-sqs.ts'
import { memoryDirectory } from '../../tools/memory-directory.ts'
import { connectTo, type NatsServer, startNats } from '../../tools/nats.ts'
import { startPostgres } from '../../tools/postgres.ts'
import { type SqsServer, startSqs } from '../../tools/sqs.ts'
import { Witness } from '../common/witness.ts'
import { DESTINATIONS, MAX_BYTES, STREAMS } from './destinations.ts'

/** Of the processes. */
const ROLE = 'app'
const ANSWER_MS = 5_000
const NS_PER_MS = 1_000_000

/** A crash of the server loses nothing; a crash of the machine may, and ends the run anyway. */
const SETTINGS = { fsync: 'off', max_connections: '150' }

/** Of all requests to SQS. At most one happens to a request, the first that its chance favours. */
const SQS_FAULTS: readonly FaultRule[] = [
  { fault: 'fail part', chance: 0.05 },
  { fault: 'drop reply', chance: 0.05 },
  { fault: 'reset', chance: 0.03 },
  { fault: 'server error', chance: 0.02 },
  { fault: 'throttle', chance: 0.02 },
  { fault: 'late reply', chance: 0.03, upToMs: 800 },
]

/** Nothing in them prevents a second effect, so that it can be seen. */
const PUBLISHING = `create schema chaos;
  create table chaos.key (key text primary key, n integer not null);
  create table chaos.committed (key text not null, n integer not null, id uuid not null, w text not null, poison boolean not null,
    digest text not null)`
const RECEIVING = `create schema chaos;
  create table chaos.effect (position bigint generated always as identity, destination text not null, key text not null,
    id text not null, w text not null, digest text not null, process text not null, at timestamptz not null default clock_timestamp())`

/** A stream that remembers ids for a moment only: most copies reach the receivers. */
const STREAM = { retention: 'limits', storage: 'file', discard: 'old', max_age: 0, max_msg_size: MAX_BYTES }
const DEDUPE_MS = 200

export interface World {
  readonly witness: Witness
  /** Of the witness files. It stays when the run is over. */
  readonly directory: string
  /** Of the two databases, through the proxy. */
  readonly urls: { readonly publishing: string; readonly receiving: string }
  readonly database: FaultyProxy
  readonly broker: FaultyProxy
  readonly natsUrl: string
  readonly sqs: SqsServer
  readonly faultySqs: FaultySqs
  readonly queueUrl: string
  /** Past the proxies, as a superuser. */
  readonly publishing: pg.Pool
  readonly receiving: pg.Pool
  readonly leasehold: Leasehold
  readonly nats: NatsConnection
  readonly natsServer: NatsServer
  crashDatabase(): Promise<void>
  /** Moves the clock of the publishing database on. */
  passDay(): Promise<void>
  calm(): void
  stop(): Promise<void>
}

export async function createWorld(seed: number): Promise<World> {
  const undo: (() => unknown)[] = []
  const stop = async () => {
    for (const each of undo.splice(0).toReversed()) await each()
  }
  try {
    return await opened(seed, undo, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

async function opened(seed: number, undo: (() => unknown)[], stop: () => Promise<void>): Promise<World> {
  const within = memoryDirectory()
  const postgres = await startPostgres({ settings: SETTINGS, ...(within === undefined ? {} : { within }) })
  undo.push(() => postgres.stop())
  const directory = fs.mkdtempSync(join(tmpdir(), 'leasehold-chaos-'))
  const witness = new Witness(directory, 'harness')
  undo.push(() => witness.close())
  const database = await startFaultyProxy({ host: '127.0.0.1', port: postgres.port })
  undo.push(() => database.stop())
  const urlOf = (name: string) => Object.assign(new URL(postgres.url), { username: ROLE, pathname: name }).href
  await withAdmin(postgres.url, async (admin) => {
    await admin.query(`create role ${ROLE} login`)
    for (const name of ['publishing', 'receiving']) await admin.query(`create database ${name} owner ${ROLE}`)
  })
  await prepare(urlOf('publishing'), PUBLISHING, (leasehold) =>
    new Outbox(leasehold).configure(Object.values(DESTINATIONS)),
  )
  await prepare(urlOf('receiving'), RECEIVING)
  const publishing = poolAt(postgres.url, 'publishing')
  const receiving = poolAt(postgres.url, 'receiving')
  undo.push(() => Promise.all([publishing.end(), receiving.end()]))

  const servers = await startNats()
  undo.push(() => servers.stop())
  const natsServer = servers.servers[0]!
  const broker = await startFaultyProxy({ host: '127.0.0.1', port: Number(new URL(natsServer.url).port) })
  undo.push(() => broker.stop())
  const nats = await connectTo([natsServer.url])
  undo.push(() => nats.close())
  for (const name of STREAMS) await createStream(nats, name)

  const sqs = await startSqs({ groupsTogether: true })
  undo.push(() => sqs.stop())
  const faultySqs = await startFaultySqs(sqs, { seed, faults: SQS_FAULTS })
  undo.push(() => faultySqs.stop())

  let days = 0
  return {
    witness,
    directory,
    urls: { publishing: database.url(urlOf('publishing')), receiving: database.url(urlOf('receiving')) },
    database,
    broker,
    natsUrl: `nats://127.0.0.1:${broker.port}`,
    sqs,
    faultySqs,
    queueUrl: await sqs.createQueue('audit.fifo'),
    publishing,
    receiving,
    leasehold: new Leasehold({ pool: publishing, log: () => {} }),
    nats,
    natsServer,
    crashDatabase: () => postgres.restart('immediate'),
    passDay: async () => {
      await publishing.query(`create or replace function leasehold.clock() returns timestamptz
        language sql stable parallel safe return pg_catalog.statement_timestamp() + interval '${++days} days'`)
    },
    calm: () => {
      for (const proxy of [database, broker]) {
        proxy.thaw()
        proxy.accept()
        proxy.delayReplies(0)
      }
      faultySqs.calm()
    },
    stop,
  }
}

async function withAdmin(url: string, use: (admin: pg.Client) => Promise<void>): Promise<void> {
  const admin = new pg.Client(url)
  await admin.connect()
  await use(admin).finally(() => admin.end())
}

async function prepare(url: string, schema: string, more?: (leasehold: Leasehold) => Promise<void>): Promise<void> {
  // Events are dropped as soon as their day has ended and they are sent.
  const leasehold = new Leasehold({ connectionString: url, retention: { events: 0 }, log: () => {} })
  await leasehold.migrate()
  await leasehold.configure([])
  await more?.(leasehold)
  await leasehold.close()
  await withAdmin(url, async (owner) => {
    await owner.query(ASSERTIONS)
    await owner.query(schema)
  })
}

function poolAt(server: string, database: string): pg.Pool {
  const connectionString = Object.assign(new URL(server), { pathname: database }).href
  const pool = new pg.Pool({ connectionString, application_name: 'chaos harness', max: 4 })
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

async function createStream(nats: NatsConnection, name: string): Promise<void> {
  const config = { ...STREAM, name, subjects: [`${name}.>`], duplicate_window: DEDUPE_MS * NS_PER_MS }
  await askJetStream(nats, `STREAM.CREATE.${name}`, config)
}

/** A request to the API of JetStream. Throws if it is refused. */
export async function askJetStream<Answer>(nats: NatsConnection, what: string, body?: object): Promise<Answer> {
  const payload = body === undefined ? '' : JSON.stringify(body)
  const answer = (await nats.request(`$JS.API.${what}`, payload, { timeout: ANSWER_MS })).json<
    Answer & { error?: { description: string } }
  >()
  if (answer.error !== undefined) throw new Error(`${what}: ${answer.error.description}`)
  return answer
}

/** As housekeeping does. Producers and relays hold locks: a turn gives up soon, and there is another. */
export async function retain({ publishing }: Pick<World, 'publishing'>): Promise<void> {
  await publishing.query(`select leasehold.make_partitions(7), leasehold.drop_partitions('90 days')`)
}
