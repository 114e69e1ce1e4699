// Four roles that share one database: the owner, who ran migrate() and then the script, a worker, a producer and a reader.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { InvalidOptionError, SchemaError } from '../../src/core/errors.ts'
import { checkSchema, grantsSql, handle, kind, migrate, queue, withTransaction } from '../../src/index.ts'
import { connectAs, newRole, urlAs, withRoles } from '../support/roles.ts'
import { codeOf, count, lastFirst, scene, untilStatus } from '../support/worker.ts'

const REFUSED = '42501'
/** Written by migrate() alone, and there only after a migration without a transaction. */
const OF_THE_OWNER = ['migration_turn']

const task = kind<number>('task')

type Rights = Record<string, string[]>

/** The privileges of a role on each relation of the schema: by verb, and with column names if only some are granted. */
async function rightsOf(db: { pool: pg.Pool }, role: string): Promise<Rights> {
  const { rows } = await db.pool.query(
    `select c.relname as name, verb, case when has_table_privilege($1, c.oid, verb) then null else (
        select array_agg(a.attname::text order by a.attname) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          and verb in ('SELECT', 'INSERT', 'UPDATE') and has_column_privilege($1, c.oid, a.attnum, verb)
      ) end as columns, has_table_privilege($1, c.oid, verb) as whole
    from pg_class c cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) verb
    where c.relnamespace = 'leasehold'::regnamespace and c.relkind in ('r', 'p', 'v')`,
    [role],
  )
  const rights: Rights = {}
  for (const { name, verb, columns, whole } of rows) {
    if (!whole && columns === null) continue
    rights[verb] ??= []
    rights[verb].push(whole ? name : `${name} (${columns.join(', ')})`)
  }
  for (const names of Object.values(rights)) names.sort()
  return rights
}

/** Tables and views, without the partitions. */
async function relations(db: { pool: pg.Pool }): Promise<string[]> {
  const { rows } = await db.pool.query(
    `select relname as name from pg_class
     where relnamespace = 'leasehold'::regnamespace and relkind in ('r', 'p', 'v') and not relispartition order by 1`,
  )
  return rows.map(({ name }) => name).filter((name) => !OF_THE_OWNER.includes(name))
}

test('every table and view is named in the rights of the reader and of the worker, and every sequence in the worker’s', async (t) => {
  const { db, roles } = await withRoles(t)
  const all = await relations(db)
  assert.ok(all.length > 15)
  for (const role of ['reader', 'worker'] as const) {
    const { SELECT } = await rightsOf(db, roles[role])
    assert.deepEqual(
      SELECT!.filter((name) => !name.endsWith('_default')),
      all,
      `a table or view that src/db/grants.sql.ts forgets for the ${role}`,
    )
  }
  const sequences = `from pg_class where relnamespace = 'leasehold'::regnamespace and relkind = 'S'
    and case when relkind = 'S' then not has_sequence_privilege($1, oid, 'USAGE') end`
  assert.equal(await count(db, sequences, [roles.worker]), 0, 'a sequence that the worker cannot use')
})

test('a producer enqueues in every way and can neither read nor change a job', async (t) => {
  const { db, as, client, roles, owner, worker } = await withRoles(t)
  const [producer, session] = [as('producer'), await client('producer')]
  await producer.migrate()
  await checkSchema(session)
  await owner.configure([kind('configured', { queue: 'elsewhere', priority: 1 })])

  const one = await producer.enqueue(task, 1)
  const mixed = await producer.enqueueMany(task, [
    { input: 1, priority: 3, partitionKey: 'p', metadata: { a: 1 } },
    { input: 2, delay: '1h', expiresAt: new Date(Date.now() + 86_400_000) },
  ])
  const keyed = await producer.enqueue(task, 1, { idempotencyKey: 'k' })
  assert.equal((await producer.enqueue(task, 1, { idempotencyKey: 'k' })).outcome, 'existing')
  assert.equal(await codeOf(() => producer.enqueue(task, 2, { idempotencyKey: 'k' })), 'IDEMPOTENCY_CONFLICT')
  const pool = new pg.Pool({ connectionString: urlAs(db, roles.producer) })
  const inTransaction = await withTransaction(pool, (tx) => producer.enqueue(task, 5, { tx }))
  await pool.end()
  const bySql = await session.query(`select * from leasehold.enqueue('configured', '1', '{"idempotency_key": "s"}')`)
  assert.equal(bySql.rows[0].outcome, 'created')
  const again = await session.query(`select * from leasehold.enqueue('configured', '1', '{"idempotency_key": "s"}')`)
  assert.equal(again.rows[0].outcome, 'existing')
  assert.equal(await count(db, "from leasehold.job where queue = 'elsewhere' and priority = 1"), 1)

  await owner.configure([
    queue('ordered', { ordered: true, onDeadLetter: 'park' }),
    queue('fair', { fair: true }),
    queue('ring', { ordered: true, ring: true }),
  ])
  for (const name of ['ordered', 'fair', 'ring']) {
    const step = kind<number>(`step of ${name}`, { queue: name })
    await producer.enqueue(step, 1, { partitionKey: 'p' })
    await producer.enqueue(step, 2, { partitionKey: 'p', idempotencyKey: 'k' })
    const options = JSON.stringify({ queue: name, partition_key: 'p', idempotency_key: 's' })
    const stored = () => session.query('select outcome from leasehold.enqueue($1, $2, $3)', [step.name, '3', options])
    assert.deepEqual([(await stored()).rows[0].outcome, (await stored()).rows[0].outcome], ['created', 'existing'])
    assert.equal(await count(db, 'from leasehold.job where queue = $1 and blocked', [name]), 2)
  }
  const ids = [one, ...mixed, keyed, inTransaction].map(({ jobId }) => jobId)
  assert.equal(new Set(ids).size, 5)
  const job = 'id, available_at, created_at'
  for (const statement of [
    'select payload from leasehold.job',
    'select * from leasehold.job',
    'select id from leasehold.job where metadata is not null',
    'select id from leasehold.job for update',
    `insert into leasehold.job (${job}, partition_bucket, queue, kind, payload, claim_id) values (1, now(), now(), 1, '', '', '1', 1)`,
    'update leasehold.job set priority = 0',
    'update leasehold.job set cancel_requested_at = now()',
    'delete from leasehold.job',
    'truncate leasehold.job',
    'delete from leasehold.idempotency_key',
    'select * from leasehold.jobs',
    'select * from leasehold.attempts',
    'select result from leasehold.archive',
    'select error from leasehold.dead_letter',
    "select leasehold.finish('completed', array[1], null)",
    'select leasehold.requeue(1, 1, now(), true, true)',
    "select leasehold.claim(1, gen_random_uuid(), 1, 1, '{task}', '{task}', '{5}', '{-infinity}', '{0}')",
    `insert into leasehold.pause (queue, at) values ('task', now())`,
    `insert into leasehold.migration values (99, 'x', 99)`,
  ]) {
    assert.equal(await codeOf(() => session.query(statement)), REFUSED, statement)
  }
  const id = one.jobId
  for (const call of [
    () => producer.get(id),
    () => producer.list(),
    () => producer.cancel(id),
    () => producer.redrive(id),
    () => producer.claim(task),
    () => producer.effects(id),
    () => producer.attempts(id),
    () => producer.pause({ kind: task }),
    () => producer.configure([task]),
  ]) {
    assert.equal(await codeOf(call), REFUSED, String(call))
  }
  assert.equal(await codeOf(() => producer.maintain()), 'SCHEMA')
  assert.deepEqual(await rightsOf(db, roles.producer), {
    SELECT: [
      'busy (queue, until)',
      'dead_letter (blocks_key, id, partition_key, queue, salt)',
      'destination (max_attempts, name, types)',
      'idempotency_key (input_hash, job_id, key, queue)',
      'job (available_at, blocked, claim_id, id, key_seq, line, partition_key, queue, salt)',
      'kind (keep_key, max_attempts, name, priority, queue)',
      'migration',
      'order_key (key, queue, reused)',
      'queue (by_key, fair, name, on_dead_letter, ordered, ring, wakes)',
    ],
    INSERT: [
      'event',
      'idempotency_key (due_at, input_hash, job_id, keep_for, key, queue)',
      'job (available_at, blocked, created_at, expires_at, id, idempotency_key, key_seq, kind, line, max_attempts, metadata, partition_bucket, partition_key, payload, priority, queue)',
      'order_check (key, queue)',
      'order_key (key, queue)',
      'signal (id, idempotency_key, job_id, name, payload, salt, sent_at)',
    ],
    UPDATE: ['order_key (reused)'],
  })
  worker([handle(task, () => {})], { poll: 50 }, as('worker'))
  for (const jobId of [one.jobId, keyed.jobId, inTransaction.jobId]) await untilStatus(db, jobId, 'completed')
})

test('a worker with its role takes a seat on the ring, gives it back, and works there', async (t) => {
  const { db, as, owner, worker } = await withRoles(t)
  await owner.configure([queue('on the ring', { ordered: true, ring: true })])
  const step = kind<number>('step', { queue: 'on the ring', ordered: true })
  const { jobId } = await as('producer').enqueue(step, 1, { partitionKey: 'p' })
  const made = worker([handle(step, () => {})], { label: 'a', poll: 50 }, as('worker'))
  await untilStatus(db, jobId, 'completed')
  assert.equal((await as('reader').ownerOf('on the ring', 'p'))?.label, 'a')
  await made.stop()
  assert.equal(await count(db, 'from leasehold.seat'), 0)
})

test('a reader sees everything and changes nothing', async (t) => {
  const { db, as, client, roles, owner } = await withRoles(t)
  const [reader, session] = [as('reader'), await client('reader')]
  await reader.migrate()
  await checkSchema(session)
  const { jobId } = await owner.enqueue(task, 7, { idempotencyKey: 'k' })
  await owner.drain([handle(task, async ({ once }) => await once('mail', () => 'sent'))])
  assert.deepEqual((await reader.get(jobId))?.result, 'sent')
  assert.deepEqual((await reader.waitFor(jobId)).input, 7)
  assert.deepEqual(
    (await reader.list({ status: 'completed' })).map(({ id }) => id),
    [jobId],
  )
  assert.equal((await reader.effects(jobId))[0]?.result, 'sent')
  assert.equal((await reader.attempts(jobId))[0]?.outcome, 'completed')
  for (const name of await relations(db)) await session.query(`select * from leasehold.${name}`)
  for (const statement of [
    `select leasehold.enqueue('task', '1')`,
    `select leasehold.enqueue('task', '1', '{"idempotency_key": "a"}')`,
    `select nextval('leasehold.job_id')`,
    'select id from leasehold.job for share',
    "select leasehold.finish('completed', array[1], null)",
    'update leasehold.archive set result = null',
    'drop view leasehold.jobs',
  ]) {
    assert.equal(await codeOf(() => session.query(statement)), REFUSED, statement)
  }
  for (const call of [
    () => reader.enqueue(task, 1),
    () => reader.cancel(jobId),
    () => reader.redrive(jobId),
    () => reader.claim(task),
    () => reader.pause({ queue: 'task' }),
  ]) {
    assert.equal(await codeOf(call), REFUSED, String(call))
  }
  assert.deepEqual(Object.keys(await rightsOf(db, roles.reader)), ['SELECT'])
})

test('rights are for one schema, and for the roles that are named', async (t) => {
  const undo = lastFirst(t)
  const role = await newRole(undo, 'producer')
  const { db } = await scene(undo as TestContext)
  await migrate(db.pool, { schema: 'other' })
  await db.pool.query(grantsSql({ schema: 'other', producer: role }))
  const session = await connectAs(undo, db, role)
  await session.query(`select other.enqueue('task', '1')`)
  assert.equal(await codeOf(() => session.query(`select leasehold.enqueue('task', '1')`)), REFUSED)
  const script = grantsSql({ schema: 'other', producer: 'a', reader: 'b' })
  assert.doesNotMatch(script, /leasehold|[{}]/)
  assert.match(script, /^begin;\n[\s\S]*commit;\n$/)
  assert.doesNotMatch(grantsSql({ producer: 'a' }), /operator_action|archive/)
})

test('a role with a statement limit has it on every connection', async (t) => {
  const undo = lastFirst(t)
  const role = await newRole(undo, 'leasehold.limited')
  const { db } = await scene(undo as TestContext)
  await db.pool.query(grantsSql({ producer: role, statementTimeout: '1500ms' }))
  const client = await connectAs(undo, db, role)
  assert.equal((await client.query('show statement_timeout')).rows[0].statement_timeout, '1500ms')
})

test('an invalid role name is refused', () => {
  for (const name of ['', 'public', 'none', 'a\0b', '\ud800', 'ä'.repeat(32), 7, null]) {
    assert.throws(() => grantsSql({ reader: name as string }), InvalidOptionError, String(name))
  }
  assert.throws(() => grantsSql({}), InvalidOptionError)
  assert.throws(() => grantsSql({ readers: 'x' } as never), /did you mean reader/)
  assert.throws(() => grantsSql({ schema: 'a"b', reader: 'x' }), SchemaError)
  assert.match(grantsSql({ reader: 'a"; drop schema leasehold; --' }), /to "a""; drop schema leasehold; --";/)
})
