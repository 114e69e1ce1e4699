// A worker whose role owns none of the tables: it works, prunes rows, and leaves the partitions to the owner.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { checkSchema, grantsSql, handle, kind, migrate } from '../../src/index.ts'
import { dropPartitions, makePartitions } from '../../src/jobs/housekeeping.ts'
import { connectAs, newRole, urlAs } from '../support/roles.ts'
import { until } from '../support/until.ts'
import { collect, count, lastFirst, scene, statements, untilStatus } from '../support/worker.ts'

const task = kind<number>('task')
const idle = [handle(task, () => {})]
const often = { sweep: 100, poll: 50 }

/** A database, and a role with the rights of a worker. */
async function withStranger(t: TestContext) {
  const undo = lastFirst(t)
  const role = await newRole(undo, 'stranger')
  const setting = await scene(undo as TestContext)
  await setting.db.pool.query(grantsSql({ worker: role }))
  const client = await connectAs(undo, setting.db, role)
  const stranger = setting.leasehold({ connectionString: urlAs(setting.db, role) })
  return { ...setting, role, client, lane: new Lane(client), stranger }
}

test('a role that owns nothing calls migrate() on an up-to-date schema, today and on every later day', async (t) => {
  const { client, db } = await withStranger(t)
  for (const later of ['0 days', '1 day', '30 days', '400 days']) {
    await db.clock.advance(later)
    await migrate(client)
    await checkSchema(client)
  }
  assert.equal(await count(db, "from pg_class where relname ~ '^archive_\\d+$' and relkind = 'r'"), 15, 'none was made')
  await db.pool.query('delete from leasehold.migration where version = (select max(version) from leasehold.migration)')
  await assert.rejects(migrate(client), { code: '42501' })
})

test('a role that owns nothing makes and drops no partition, and reports it', async (t) => {
  const { lane, client, db } = await withStranger(t)
  await db.clock.advance('3 days')
  assert.equal(await makePartitions(lane), undefined)
  assert.equal(await dropPartitions(lane, 0), undefined)
  const { rows } = await client.query('select leasehold.reserve_pages() as reserved')
  assert.equal(rows[0].reserved, null)
})

test('partitions made by a member of the owner belong to the owner', async (t) => {
  const undo = lastFirst(t)
  const owner = await newRole(undo, 'owner')
  const [member, apart] = [await newRole(undo, 'member'), await newRole(undo, 'apart')]
  const { db } = await scene(undo as TestContext)
  await db.pool.query(`alter role ${apart} noinherit; grant ${owner} to ${member}, ${apart};
    create schema elsewhere authorization ${owner}`)
  const ownerClient = await connectAs(undo, db, owner)
  await migrate(ownerClient, { schema: 'elsewhere' })
  const lane = async (role: string) => new Lane(await connectAs(undo, db, role), { schema: 'elsewhere' })
  await db.pool.query(`create or replace function elsewhere.clock() returns timestamptz language sql stable
    as $$ select statement_timestamp() + interval '10 days' $$`)
  assert.ok((await makePartitions(await lane(member), 7))! > 0)
  const strays = `from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'elsewhere' and c.relkind = 'r' and pg_get_userbyid(c.relowner) <> $1`
  assert.equal(await count(db, strays, [owner]), 0)
  assert.equal(await dropPartitions(new Lane(ownerClient, { schema: 'elsewhere' }), 0), 3)
  await db.pool.query(`grant usage on schema elsewhere to ${apart}`)
  assert.equal(await makePartitions(await lane(apart)), undefined, 'it does not inherit the rights of the owner')
})

test('maintain() by the owner makes and drops every partition that is due, and is refused to others', async (t) => {
  const { db, lh, stranger } = await withStranger(t)
  await assert.rejects(stranger.maintain(), {
    code: 'SCHEMA',
    message: /by the owner of the tables in schema "leasehold"/,
  })
  await db.pool.query(
    `insert into leasehold.kind (name, keep) values ('long', '20 days'), ('longer', '1 year'), ('none', null)`,
  )
  const days = async () => {
    const { rows } = await db.pool.query(`select substring(relname from '(.*)_') as parent, count(*)::int as count,
        min(right(relname, 8)::date) - (leasehold.clock() at time zone 'UTC')::date as first,
        max(right(relname, 8)::date) - (leasehold.clock() at time zone 'UTC')::date as last
      from pg_class where relname ~ '^(archive|job_attempt)_\\d{8}$' and relkind = 'r' group by 1 order by 1`)
    return rows
  }
  await db.clock.set('2040-01-15T12:00:00Z')
  const { made, dropped } = await lh.maintain()
  assert.ok(made >= 98 + 8 && dropped >= 15 + 8, `${made} made, ${dropped} dropped`)
  assert.deepEqual(await days(), [
    { parent: 'archive', count: 98, first: 0, last: 97 },
    { parent: 'job_attempt', count: 8, first: 0, last: 7 },
  ])
  assert.deepEqual(await lh.maintain(), { made: 0, dropped: 0 })
})

test('a worker that owns nothing logs once what it leaves to the owner, and the owner’s worker does it', async (t) => {
  const { db, log, worker, stranger, lh } = await withStranger(t)
  const names = statements(t)
  const busy = worker(idle, often, stranger)
  const problems = collect(busy, 'problem')
  const lines = () => log.filter(({ message }) => message.includes('left to its owner'))
  const taken = (name: string) => names.filter((one) => one === name).length
  await until('it is logged', () => lines().length > 0)
  for (let hour = 1; hour <= 3; hour++) {
    const before = taken('dead_letter.prune')
    await db.clock.advance('61 min')
    await until('it has pruned', () => taken('dead_letter.prune') > before)
  }
  assert.deepEqual(
    lines().map(({ level }) => level),
    ['warn'],
  )
  assert.match(lines()[0]!.message, /schema "leasehold".*leasehold\.maintain\(\) as the owner/)
  assert.ok(taken('partition.make') <= 1, 'the duty is left to others')
  const { jobId } = await stranger.enqueue(task, 1)
  await untilStatus(db, jobId, 'completed')
  assert.deepEqual(problems, [])

  await db.clock.advance('30 days')
  const archives = "from pg_class where relname ~ '^archive_\\d+$' and relkind = 'r'"
  const aheadOf = (days: number) =>
    count(
      db,
      `${archives} and right(relname, 8) = to_char((leasehold.clock() at time zone 'UTC') + $1 * interval '1 day', 'YYYYMMDD')`,
      [days],
    )
  assert.equal(await aheadOf(14), 0)
  worker(idle, often, lh)
  await until('the owner’s worker makes partitions', async () => (await aheadOf(14)) === 1)
})

test('a prune step that is refused keeps no other step from running', async (t) => {
  const { db, role, worker, stranger } = await withStranger(t)
  const steps: Record<string, string> = {
    'dead letters': 'dead_letter',
    'finished jobs': 'archive_default',
    attempts: 'job_attempt_default',
    effects: 'effect',
    workers: 'worker',
    'operator actions': 'operator_action',
    keys: 'idempotency_key',
  }
  for (const table of Object.values(steps)) await db.pool.query(`revoke delete on leasehold.${table} from ${role}`)
  const busy = worker(idle, often, stranger)
  const problems = collect(busy, 'problem')
  const refused = () => new Map(problems.map((problem) => [problem!.doing, (problem!.error as { code?: string }).code]))
  const expected = Object.keys(steps).map((step) => [`housekeeping (prune ${step})`, '42501'] as const)
  await until('every step was tried', () => expected.every(([doing]) => refused().has(doing)))
  assert.deepEqual(refused(), new Map(expected))
})
