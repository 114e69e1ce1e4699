/** How a database is reached: producers use a pool, workers open their own connections. */
import pg from 'pg'
import { InvalidOptionError } from '../core/errors.ts'
import { KindNames } from '../core/kind-names.ts'
import { type Log, logOf } from '../core/log.ts'
import { checkOptions } from '../core/options.ts'
import { checkRetention, type Retention, type RetentionMs } from '../core/retention.ts'
import { RunningSet } from '../core/running-set.ts'
import type { Tracing } from '../core/tracing.ts'
import { Lane } from './lane.ts'
import { checkSchema } from './migrate.ts'
import { surviveIdleLoss } from './pool-errors.ts'
import { PooledStatements, PRODUCER_DEADLINE_MS } from './pooled.ts'
import { Session } from './session.ts'

/** Postgres cuts an application_name at this length. */
const NAME_CHARS = 63

export interface ConnectionOptions {
  /** Such as postgres://user@host/database. Mutually exclusive with `pool`. */
  readonly connectionString?: string
  /** Your own pool. Workers read its options and open their own connections. */
  readonly pool?: pg.Pool
  /** Where our tables live. Default: leasehold. */
  readonly schema?: string
  /** Named statements, planned once per connection. False behind PgBouncer in transaction mode. Default: true. */
  readonly prepare?: boolean
  /**
   * Notify workers of new jobs by LISTEN. Behind a pooler: false, or a connection string that bypasses it. Default: true.
   */
  readonly listen?: boolean | string
  /** Receives log entries. Default: all but debug to stderr. */
  readonly log?: Log
  /** Retention of rows that belong to no kind. Stored by configure(); a worker only compares it. */
  readonly retention?: Retention
}

/**
 * Where a Leasehold keeps its connection, for the parts of other subpaths that are made of one. A registered symbol: a program may
 * hold two copies of this package.
 */
export const CONNECTION = Symbol.for('leasehold.connection')

export function connectionOf(option: string, leasehold: object): Connection {
  const connection = (leasehold as { readonly [CONNECTION]?: Connection } | null | undefined)?.[CONNECTION]
  if (connection !== undefined) return connection
  throw new InvalidOptionError(option, 'it must be a Leasehold: new Leasehold({ … })')
}

const KNOWN = ['connectionString', 'pool', 'schema', 'prepare', 'listen', 'log', 'retention'] as const

export class Connection {
  readonly pool: pg.Pool
  readonly lane: Lane
  readonly schema: string
  readonly prepare: boolean
  readonly log: Log
  /** For a worker's own connections. */
  readonly client: pg.ClientConfig
  /** For the connection that listens; undefined: none. */
  readonly listen: pg.ClientConfig | undefined
  /** The values given to this process. The stored settings apply. */
  readonly retention: Partial<RetentionMs>
  /** The kinds that producers and workers of this process use. */
  readonly kinds: KindNames
  /** The workers of this process that run, for health and metrics. */
  readonly workers = new RunningSet<object>()
  /** Undefined unless `leasehold/opentelemetry` was attached. */
  tracing: Tracing | undefined
  readonly #poolIsOurs: boolean

  constructor(options: ConnectionOptions) {
    checkOptions('Leasehold', options ?? {}, KNOWN)
    if (options?.pool === undefined && options?.connectionString === undefined) {
      const isUnset = 'connectionString' in (options ?? {})
      const hint = isUnset ? '; connectionString is undefined, so its environment variable is not set' : ''
      throw new InvalidOptionError('Leasehold', `it needs a connectionString or a pool${hint}`)
    }
    this.schema = options.schema ?? 'leasehold'
    this.prepare = options.prepare ?? true
    this.log = logOf('Leasehold.log', options.log)
    this.kinds = new KindNames(this.log)
    this.retention = checkRetention('Leasehold.retention', options.retention)
    if (options.pool !== undefined && options.connectionString !== undefined) {
      throw new InvalidOptionError(
        'Leasehold.pool',
        '`pool` and `connectionString` are mutually exclusive; leave one out',
      )
    }
    this.#poolIsOurs = options.pool === undefined
    this.pool = options.pool === undefined ? newPool(options.connectionString) : checkPool(options.pool)
    surviveIdleLoss(this.pool, this.log)
    this.client = clientConfig(this.pool)
    this.listen = listenConfig(options.listen ?? true, this.client)
    const { schema, prepare } = this
    this.lane = new Lane(new PooledStatements(this.pool, PRODUCER_DEADLINE_MS), { schema, prepare })
  }

  /** On a connection of its own, which can be abandoned: a pool would keep trying until its own deadline. */
  async checkSchema(deadlineMs: number, giveUp: Promise<void>): Promise<void> {
    const session = new Session({ connection: this.client, deadlineMs })
    void giveUp.then(() => session.abandon())
    try {
      await checkSchema(session, { schema: this.schema })
    } finally {
      await session.close()
    }
  }

  /** For a connection of this worker. pg_stat_activity shows the label. */
  clientFor(label: string): pg.ClientConfig {
    return named(this.client, label)
  }

  listenerFor(label: string): pg.ClientConfig | undefined {
    return this.listen === undefined ? undefined : named(this.listen, label)
  }

  /** Ends the pool, unless it is the user's. */
  async close(): Promise<void> {
    if (this.#poolIsOurs && !this.pool.ended) await this.pool.end()
  }
}

function newPool(connectionString: string | undefined): pg.Pool {
  return new pg.Pool({
    connectionString: checkUrl('Leasehold.connectionString', connectionString),
    application_name: 'leasehold',
    connectionTimeoutMillis: PRODUCER_DEADLINE_MS,
    keepAlive: true,
    allowExitOnIdle: true,
  })
}

function checkPool(pool: pg.Pool): pg.Pool {
  if (typeof pool?.connect === 'function' && typeof pool.options === 'object') return pool
  throw new InvalidOptionError('Leasehold.pool', 'it must be a pool of pg: new pg.Pool({ … })')
}

function clientConfig(pool: pg.Pool): pg.ClientConfig {
  const { max, min, idleTimeoutMillis, allowExitOnIdle, maxUses, ...client } = pool.options as pg.PoolConfig
  // pg-pool makes the password non-enumerable, so that it is not printed; spreading does not copy it either.
  return Object.defineProperty({ ...client, query_timeout: 0 } as pg.ClientConfig, 'password', {
    value: pool.options.password,
    enumerable: false,
  })
}

/** Keeps the name from the connection string, and appends the label. */
function named(client: pg.ClientConfig, label: string): pg.ClientConfig {
  const name = `${client.application_name ?? 'leasehold'} ${label}`
  return Object.defineProperty({ ...client, application_name: name.slice(0, NAME_CHARS) }, 'password', {
    value: client.password,
    enumerable: false,
  })
}

function listenConfig(listen: boolean | string, client: pg.ClientConfig): pg.ClientConfig | undefined {
  if (typeof listen === 'boolean') return listen ? client : undefined
  return { connectionString: checkUrl('Leasehold.listen', listen) }
}

/** The URL parser's own error would hold the whole string, password included. */
function checkUrl(option: string, value: unknown): string {
  if (typeof value === 'string' && (value.startsWith('/') || URL.canParse(value))) return value
  throw new InvalidOptionError(option, 'it must be a URL such as postgres://user:password@host:5432/database')
}
