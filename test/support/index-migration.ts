// Processes that apply a migration without a transaction: each is a client of its own whose statements a test can stop or
// break.
import assert from 'node:assert/strict'
import type pg from 'pg'
import { applyMigrations, CODE_LEVEL } from '../../src/db/migrate.ts'
import { MIGRATIONS, type Migration } from '../../src/db/migrations.generated.ts'
import { type TestDatabase, waitUntilBlocked } from './database.ts'

export const VERSION = CODE_LEVEL + 1
export const BUILD = 'create index concurrently if not exists job_by_kind on leasehold.job (kind, id)'
export const DROP = 'drop index concurrently if exists leasehold.job_by_kind'
export const build = migration(VERSION, BUILD)
export const LIST = [...MIGRATIONS, build]

export function migration(version: number, ...statements: string[]): Migration {
  return { version, name: 'by_kind', servesFrom: 1, statements, withoutTransaction: true }
}

interface Process {
  readonly client: pg.Client
  readonly pid: number
  /** The statements sent so far. */
  readonly sent: string[]
  looks(): number
  migrate(list?: readonly Migration[], schema?: string): Promise<void>
}

/** `before` is called with each statement before it is sent, `after` once it has a reply. */
export async function startProcess(
  client: pg.Client,
  hooks: { before?(text: string): unknown; after?(text: string): unknown } = {},
): Promise<Process> {
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>
  const sent: string[] = []
  Object.assign(client, {
    query: async (...args: unknown[]) => {
      const text = typeof args[0] === 'string' ? args[0] : (args[0] as { text: string }).text
      await hooks.before?.(text)
      sent.push(text)
      const answer = await query(...args)
      await hooks.after?.(text)
      return answer
    },
  })
  const looks = () => sent.filter((text) => text.includes('look_at_indexes')).length
  const migrate = (list: readonly Migration[] = LIST, schema = 'leasehold') => applyMigrations(client, { schema }, list)
  return { client, pid: rows[0].pid, sent, looks, migrate }
}

export function isBuild(text: string): boolean {
  return text.startsWith('create index concurrently')
}

export function isDrop(text: string): boolean {
  return text.includes('drop index concurrently')
}

export const dies = () => {
  throw new Error('the process died')
}

interface IndexRow {
  readonly oid: number
  readonly name: string
  readonly valid: boolean
}

/** Indexes of this name, and those that lost their name. */
export async function indexes(db: TestDatabase, schema = 'leasehold'): Promise<IndexRow[]> {
  const { rows } = await db.pool.query(
    `select c.oid, c.relname as name, i.indisvalid as valid from pg_class c join pg_index i on i.indexrelid = c.oid
     where c.relnamespace = $1::regnamespace and (c.relname = 'job_by_kind' or c.relname ~ 'discarded')`,
    [schema],
  )
  return rows
}

export async function isRecorded(db: TestDatabase, schema = 'leasehold', version = VERSION): Promise<boolean> {
  const { rowCount } = await db.pool.query(`select from ${schema}.migration where version = $1`, [version])
  return rowCount === 1
}

export async function isBuiltAndRecorded(db: TestDatabase, schema = 'leasehold'): Promise<IndexRow> {
  const found = await indexes(db, schema)
  assert.deepEqual(
    found.map(({ name, valid }) => [name, valid]),
    [['job_by_kind', true]],
  )
  assert.ok(await isRecorded(db, schema))
  assert.equal((await db.pool.query(`select from ${schema}.migration_turn`)).rowCount, 0)
  return found[0]!
}

/** A transaction that every build waits for. */
async function holdUp(db: TestDatabase, schema = 'leasehold'): Promise<{ release(): Promise<unknown> }> {
  const client = await db.connect()
  await client.query(`begin; lock table ${schema}.job in row exclusive mode`)
  return { release: () => client.query('commit') }
}

/** A build that another session has begun and that waits for a transaction. */
export async function buildUnderWay(db: TestDatabase, schema = 'leasehold') {
  const [observer, client] = await Promise.all([db.connect(), db.connect()])
  const held = await holdUp(db, schema)
  const { pid, client: builder } = await startProcess(client)
  const built = builder.query(BUILD.replace('leasehold', schema))
  built.catch(() => {}) // awaited by the test
  await waitUntilBlocked(observer, pid)
  const finish = async () => {
    await held.release()
    await built
  }
  const cancel = async () => {
    await observer.query('select pg_cancel_backend($1)', [pid])
    await assert.rejects(built, { code: '57014' })
    await held.release()
  }
  return { finish, cancel }
}

/** The state that a cancelled build leaves. */
export async function leaveInvalidIndex(db: TestDatabase): Promise<number> {
  const { cancel } = await buildUnderWay(db)
  await cancel()
  const [left] = await indexes(db)
  assert.equal(left?.valid, false)
  return left!.oid
}

/** A build in its last step: it has released its lock and has yet to commit. The caller commits. */
export async function lastCommitOf(db: TestDatabase, index: number): Promise<pg.Client> {
  const builder = await db.connect()
  // Filled, then marked as before: from its commit on the planner reads the index.
  await builder.query('reindex index leasehold.job_by_kind')
  await builder.query(`update pg_index set indisvalid = false where indexrelid = ${index}`)
  await builder.query(`begin; update pg_index set indisvalid = true where indexrelid = ${index}`)
  return builder
}

export async function endTurns(db: TestDatabase): Promise<void> {
  await db.pool.query("update leasehold.migration_turn set until = now() - interval '1 s'")
}
