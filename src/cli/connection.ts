/** How a command reaches its database, and what it prints when it cannot. */
import { LeaseholdError, SchemaError } from '../core/errors.ts'
import { type Connection, connectionOf } from '../db/connection.ts'
import type { Lane } from '../db/lane.ts'
import { checkSchema } from '../db/migrate.ts'
import { describeDatabase } from '../inspect/database.ts'
import { Leasehold } from '../leasehold.ts'
import { Failure } from './failure.ts'
import { neutral } from './terminal.ts'

export interface Target {
  readonly url?: string | undefined
  readonly schema?: string | undefined
}

type Env = Readonly<Record<string, string | undefined>>

export interface Database {
  readonly leasehold: Leasehold
  readonly connection: Connection
  readonly lane: Lane
  /** Such as `shop on 10.0.0.7:5432`, with the schema if it is not the default. */
  readonly name: string
  close(): Promise<void>
}

export function connect(target: Target, env: Env): Leasehold {
  const connectionString = target.url ?? (env.LEASEHOLD_URL || env.DATABASE_URL)
  if (connectionString === undefined || connectionString === '') {
    throw new Failure('no database given; pass --url postgres://… or set LEASEHOLD_URL or DATABASE_URL')
  }
  if (!/^postgres(ql)?:\/\//.test(connectionString)) {
    throw new Failure(
      'the database is not a URL such as postgres://user@host:5432/name; check --url, LEASEHOLD_URL and DATABASE_URL',
    )
  }
  return new Leasehold({ connectionString, ...(target.schema === undefined ? {} : { schema: target.schema }) })
}

/** Connected, and its schema is one that this version can work on. */
export async function open(target: Target, env: Env): Promise<Database> {
  const leasehold = connect(target, env)
  const connection = connectionOf('cli', leasehold)
  try {
    const database = await reach(connection)
    await checkSchema(connection.pool, { schema: connection.schema }).catch((error: unknown) => {
      throw error instanceof SchemaError ? new Failure(misfit(error, database)) : error
    })
    const name = connection.schema === 'leasehold' ? database : `${database}, schema ${connection.schema}`
    return { leasehold, connection, lane: connection.lane, name, close: () => leasehold.close() }
  } catch (error) {
    await leasehold.close()
    throw error
  }
}

/** The first statement on a database: returns its name. Any error is one of the connection. */
export async function reach({ lane }: Connection): Promise<string> {
  try {
    return neutral(await describeDatabase(lane))
  } catch (error) {
    throw explain(error) === undefined ? new Failure(unreachable(error)) : error
  }
}

/** Why a schema does not fit, and the command to run. */
export function misfit({ message }: SchemaError, database: string): string {
  const fact = message.replace(/\. Call migrate\(\).*$/, '')
  if (fact === message) return `${message.replace(/\.$/, '')} (database ${database})`
  return `${fact}, in database ${database}; run \`leasehold migrate\`, or pass another --url or --schema`
}

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ECONNRESET',
  'EAI_AGAIN',
  'ENOENT',
  '57P01',
  '57P02',
])
/** A statement was cancelled by statement_timeout, or a lock was not granted within lock_timeout. */
const TOO_SLOW = new Set(['57014', '55P03'])
const REFUSED = new Set(['28P01', '28000', '3D000', '53300', '57P03', '42501', '25006'])

/** One line that states what to do; undefined: a bug, which is shown whole. */
export function explain(error: unknown): string | undefined {
  if (error instanceof Failure) return error.message
  const { code, message } = (error ?? {}) as { code?: string; message?: string }
  if (error instanceof LeaseholdError) return message
  if (TOO_SLOW.has(code ?? ''))
    return `the database took too long: ${message}; look for locks and load, and run the command again`
  if (UNREACHABLE.has(code ?? '') || /timeout|terminated|SASL|getaddrinfo/i.test(message ?? ''))
    return unreachable(error)
  if (REFUSED.has(code ?? '')) return `the database refused: ${message}; check --url and the rights of its role`
  return undefined
}

function unreachable(error: unknown): string {
  const { code, message, errors } = (error ?? {}) as { code?: string; message?: string; errors?: unknown[] }
  const first = (errors?.[0] as { message?: string } | undefined)?.message
  const cause = (message || first || code || String(error)).replace(/\.$/, '')
  return `cannot reach the database: ${cause}; check --url, or LEASEHOLD_URL and DATABASE_URL`
}
