import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { SchemaError } from '../../src/core/errors.ts'
import { Lane, quoteSchema } from '../../src/db/lane.ts'
import { CODE_LEVEL, checkSchema, migrate, migrationSql } from '../../src/db/migrate.ts'
import { MIGRATIONS } from '../../src/db/migrations.generated.ts'
import { STATUSES } from '../../src/jobs/job.ts'
import { DUMP, dumpSchema } from '../../tools/dump-schema.ts'
import { GENERATED, generateMigrations } from '../../tools/embed-migrations.ts'
import { splitSql } from '../../tools/split-sql.ts'
import { freshDatabase, suiteDatabase, type TestDatabase } from '../support/database.ts'
import { claimNext, completeAll, countByStatus, enqueueMany, enqueueOne, newWorker, session } from '../support/queue.ts'
import { connectAs, newRole } from '../support/roles.ts'
import { lastFirst } from '../support/worker.ts'

const db = await suiteDatabase()

async function schemaCount(schema: string): Promise<number> {
  const { rows } = await db.pool.query('select count(*)::int as n from pg_namespace where nspname = $1', [schema])
  return rows[0].n
}

async function appliedVersions(target: TestDatabase, schema = 'leasehold'): Promise<number[]> {
  const { rows } = await target.pool.query(`select version from ${schema}.migration order by version`)
  return rows.map((row) => row.version)
}

test('the generated module equals the .sql files', () => {
  assert.equal(readFileSync(GENERATED, 'utf8'), generateMigrations(), 'run: npm run migrations')
})

test('schema.sql equals the migrated schema', async (t) => {
  const own = await freshDatabase(t)
  await own.pool.query('drop schema leasehold cascade')
  await migrate(own.pool)
  assert.equal(await dumpSchema(own.pool), readFileSync(DUMP, 'utf8'), 'run: npm run schema')
})

test('the statuses in the code are those of the database', async () => {
  const { rows } = await db.pool.query('select enum_range(null::leasehold.job_status)::text[] as statuses')
  assert.deepEqual(rows[0].statuses, [...STATUSES])
})

test('ten processes migrating at once apply each migration once', async () => {
  const pools = Array.from({ length: 10 }, () => new pg.Pool({ connectionString: db.url, max: 2 }))
  try {
    await Promise.all(pools.map((pool) => migrate(pool, { schema: 'crowd' })))
  } finally {
    await Promise.all(pools.map((pool) => pool.end()))
  }
  assert.deepEqual(
    await appliedVersions(db, 'crowd'),
    MIGRATIONS.map((migration) => migration.version),
  )
})

test('a process killed in the middle of a migration leaves nothing of it, and the next process continues', async () => {
  // Its session ends while the sixth migration is under way: the statements so far are rolled back.
  const doomed = await session(db)
  const killer = await db.connect()
  const query = doomed.client.query.bind(doomed.client)
  let statements = 0
  const dying = Object.assign(doomed.client, {
    query: async (...args: [string | { text: string }, unknown[]?]) => {
      const text = typeof args[0] === 'string' ? args[0] : args[0].text
      if (text.includes('make_partitions(days_ahead') && ++statements === 1) {
        await killer.query('select pg_terminate_backend($1)', [doomed.pid])
      }
      return query(...(args as [string, unknown[]?]))
    },
  })
  await assert.rejects(migrate(dying as unknown as pg.ClientBase, { schema: 'killed' }))
  assert.deepEqual(await appliedVersions(db, 'killed'), [1, 2, 3, 4, 5])
  await migrate(db.pool, { schema: 'killed' })
  assert.deepEqual(
    await appliedVersions(db, 'killed'),
    MIGRATIONS.map((migration) => migration.version),
  )
})

test('a migrated schema is not changed', async () => {
  const before = await db.pool.query('select * from leasehold.migration')
  await migrate(db.pool)
  assert.deepEqual((await db.pool.query('select * from leasehold.migration')).rows, before.rows)
})

test('the printed SQL makes the same schema', async (t) => {
  const own = await freshDatabase(t)
  await own.pool.query('drop schema leasehold cascade')
  const client = await own.connect()
  for (const statement of splitSql(migrationSql())) await client.query(statement) // As psql does.
  assert.equal(await dumpSchema(own.pool), readFileSync(DUMP, 'utf8'))
  await checkSchema(own.pool)
})

test('another schema name works, also one that is a reserved word', async () => {
  await migrate(db.pool, { schema: 'select' })
  const lane = new Lane(db.pool, { schema: 'select' })
  await enqueueOne(lane)
  const worker = newWorker()
  assert.deepEqual(await completeAll(lane, worker, await claimNext(lane, { worker })), { refused: [], busy: [] })
  const { rows } = await db.pool.query('select status from "select".jobs')
  assert.deepEqual(rows, [{ status: 'completed' }])
  assert.deepEqual(await countByStatus(db), {}, 'and nothing reached the other schema')
})

test('the owner of an existing schema migrates it without the right to create schemas', async (t) => {
  const undo = lastFirst(t)
  const owner = await newRole(undo, 'owner')
  const own = await freshDatabase(undo as TestContext)
  await own.pool.query(`create schema given authorization ${owner}`)
  const client = await connectAs(undo, own, owner)
  await assert.rejects(client.query('create schema another'), { code: '42501' })
  await migrate(client, { schema: 'given' })
  await checkSchema(client, { schema: 'given' })
})

test('an unsafe schema name is refused', async () => {
  const hostile = [
    '',
    'a"; drop schema public; --',
    'a.b',
    'Upper',
    '1a',
    'pg_temp',
    'pg_catalog',
    'information_schema',
    'a\0',
    'x'.repeat(41),
    'ä',
    'a b',
    "a'b",
  ]
  for (const schema of hostile) {
    assert.throws(() => quoteSchema(schema), SchemaError, schema)
    assert.throws(() => new Lane(db.pool, { schema }), SchemaError)
    await assert.rejects(migrate(db.pool, { schema }), SchemaError)
  }
  assert.equal(await schemaCount('public'), 1)
})

test('code refuses a schema below its level, and one that no longer serves it', async (t) => {
  const own = await freshDatabase(t)
  await checkSchema(own.pool)
  await assert.rejects(checkSchema(own.pool, { schema: 'absent' }), /has no tables of Leasehold, this code needs level/)
  await own.pool.query('delete from leasehold.migration where version = $1', [CODE_LEVEL])
  await assert.rejects(checkSchema(own.pool), { code: 'SCHEMA', message: /Call migrate\(\)/ })

  const next = CODE_LEVEL + 1
  const insert = 'insert into leasehold.migration (version, name, serves_from) values ($1, $2, $3)'
  await own.pool.query(insert, [CODE_LEVEL, 'again', 1])
  await own.pool.query(insert, [next, 'additive', 1])
  await checkSchema(own.pool)
  await own.pool.query('update leasehold.migration set serves_from = $1 where version = $1', [next])
  await assert.rejects(checkSchema(own.pool), { code: 'SCHEMA', message: /Upgrade leasehold/ })
  await assert.rejects(migrate(own.pool), { code: 'SCHEMA' })
})

test('the assertions of the tests refuse impossible states', async () => {
  const insert = (columns: string, values: string) =>
    db.pool.query(
      `insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload${columns})
       values (now(), now(), 0, 'q', 'k', '1'${values})`,
    )
  const refused = { code: '23514' }
  await assert.rejects(
    insert(', claim_id, lease_generation, attempts', ', 1, 1, 1'),
    refused,
    'a claim without its time',
  )
  await assert.rejects(insert(', attempts, lease_generation', ', 6, 6'), refused, 'more attempts than allowed')
  await assert.rejects(insert(', attempts', ', 1'), refused, 'an attempt without a generation')
  await assert.rejects(insert(', attempts, lease_generation', ', 5, 5'), refused, 'pending with no attempt left')
  await assert.rejects(insert(', priority', ', 10'), refused)
  await assert.rejects(
    db.pool.query(
      `insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
       values (now(), now(), 1024, 'q', 'k', '1')`,
    ),
    refused,
  )
})

test('a hostile search_path cannot shadow what our functions use', async (t) => {
  const own = await freshDatabase(t)
  const { client } = await session(own)
  await client.query(`create schema hostile;
    create function hostile.statement_timestamp() returns timestamptz language sql as $$ select '1999-01-01'::timestamptz $$;
    create function hostile.nextval(regclass) returns bigint language sql as $$ select 666::bigint $$;
    create function hostile.sha256(bytea) returns bytea language sql as $$ select '\\x00'::bytea $$;
    set search_path = hostile, pg_catalog`)
  await client.query("select * from leasehold.enqueue('k', '1', '{\"idempotency_key\": \"a\"}')")
  const { rows } = await client.query("select id, created_at > now() - interval '1 hour' as recent from leasehold.job")
  assert.deepEqual(rows, [{ id: '1', recent: true }])
  const keys = await client.query('select octet_length(input_hash) as bytes from leasehold.idempotency_key')
  assert.deepEqual(keys.rows, [{ bytes: 32 }])
})

test('migrate raises a sequence that lags behind the rows, as on a logical replica, and never lowers it', async (t) => {
  const own = await freshDatabase(t)
  const lane = new Lane(own.pool)
  const ids = await enqueueMany(lane, 5)
  await own.pool.query("select setval('leasehold.job_id', 2)")
  await migrate(own.pool)
  const next = await enqueueOne(lane)
  assert.ok(Number(next) > Math.max(...ids.map(Number)), next)
  await own.pool.query("select setval('leasehold.job_id', 1000)")
  await migrate(own.pool)
  assert.equal(await enqueueOne(lane), '1001')
})
