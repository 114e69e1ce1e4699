// What a batch loads, and what a publish and a replay look at, are found by index in the partitions that hold them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { READ_RECEIPTS } from '../../src/inbox/inbox.sql.ts'
import { LOAD_EVENTS } from '../../src/outbox/outbox.sql.ts'
import { READ_PUBLISHED, READ_SENT, READ_UNSENT } from '../../src/outbox/reconcile.sql.ts'
import { outboxScene } from './scene.ts'

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Loops'?: number
  readonly 'Actual Rows'?: number
  readonly 'Subplan Name'?: string
  readonly Filter?: string
  readonly Plans?: readonly PlanNode[]
}

const nodesOf = (plan: PlanNode): PlanNode[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

/** Scans of tables that were carried out, and read more than an empty table. */
function scans(plan: PlanNode): PlanNode[] {
  return nodesOf(plan).filter(
    (node) => /Seq Scan|Bitmap/.test(node['Node Type']) && node['Actual Loops']! > 0 && node['Actual Rows']! > 0,
  )
}

const FILL = `insert into leasehold.event (id, published_at, time, source, type, key)
  select gen_random_uuid(), leasehold.clock() + n * interval '1 s', leasehold.clock(), '/s', 'a', 'k' || n % 100
  from generate_series(1, 200000) n`

async function filled(client: pg.Client): Promise<{ ids: string[]; times: string[] }> {
  await client.query(FILL)
  await client.query('analyze leasehold.event')
  const { rows } = await client.query(
    `select array_agg(id::text) as ids, array_agg(published_at::text) as times
     from (select id, published_at from leasehold.event where place % 400 = 0) as e`,
  )
  return rows[0]
}

test('the events of a batch are found by index, under a generic plan and under a custom one', async (t) => {
  const { db } = await outboxScene(t)
  const client = await db.connect()
  const { ids, times } = await filled(client)
  assert.equal(ids.length, 500)
  for (const mode of ['generic', 'custom']) {
    await client.query(`set plan_cache_mode = force_${mode}_plan`)
    await client.query(`prepare explained as ${LOAD_EVENTS}`)
    const list = (texts: string[], type: string) => `'{${texts.map((text) => `"${text}"`).join(',')}}'::${type}[]`
    const execute = `execute explained(${list(ids, 'uuid')}, ${list(times, 'timestamptz')}, 16777216)`
    const { rows } = await client.query(`explain (analyze, format json, timing off) ${execute}`)
    const plan: PlanNode = rows[0]['QUERY PLAN'][0].Plan
    assert.equal(plan['Actual Rows'], 500, mode)
    assert.deepEqual(scans(plan), [], mode)
    await client.query('deallocate explained')
  }
})

test('a page of a replay reads as many events as it looks at', async (t) => {
  const { db, destination } = await outboxScene(t)
  await destination('billing', { types: ['none'] })
  const client = await db.connect()
  await filled(client)
  const reads = async () => {
    const { rows } = await client.query(
      `select sum(idx_tup_fetch)::int as events, sum(seq_tup_read)::int as scanned from pg_stat_xact_user_tables
       where schemaname = 'leasehold' and relname like 'event%'`,
    )
    return rows[0]
  }
  await client.query('begin')
  const before = await reads()
  await client.query(`select leasehold.replay('billing', '-infinity', 'infinity', null, null, 100000, 1000)`)
  const after = await reads()
  await client.query('commit')
  const read = after.events - before.events
  assert.ok(read >= 1_000 && read <= 1_100, `${read} by index`)
  assert.ok(after.scanned - before.scanned <= 10, `${after.scanned - before.scanned} by a scan`)
})

async function explained(client: pg.Client, sql: string, args: string): Promise<PlanNode[]> {
  const plans: PlanNode[] = []
  for (const mode of ['generic', 'custom']) {
    await client.query(`set plan_cache_mode = force_${mode}_plan`)
    await client.query(`prepare explained as ${sql}`)
    const { rows } = await client.query(`explain (analyze, format json, timing off) execute explained(${args})`)
    plans.push(rows[0]['QUERY PLAN'][0].Plan)
    await client.query('deallocate explained')
  }
  return plans
}

test('a report finds its page of events and their receipts by index, under a generic plan and under a custom one', async (t) => {
  const { db, destination } = await outboxScene(t)
  await destination('billing')
  const client = await db.connect()
  const { ids } = await filled(client)
  const pages = await explained(client, READ_PUBLISHED, `'billing', '-infinity', 'infinity', '100000', 1000`)
  for (const plan of pages) {
    const read = nodesOf(plan).filter((node) => node['Relation Name']?.startsWith('event'))
    const rows = read.reduce((sum, node) => sum + node['Actual Rows']! * node['Actual Loops']!, 0)
    assert.equal(plan['Actual Rows'], 1_000)
    assert.ok(rows <= 1_100, `${rows} events were read`)
  }
  await client.query(`insert into leasehold.inbox (source, event_id, received_at, forget_at)
    select 'shop', '/s ' || id, published_at, published_at + interval '15 days' from leasehold.event`)
  await client.query('analyze leasehold.inbox')
  const list = `'{${ids.join(',')}}'::text[]`
  const args = `'shop', ${list}, array_fill('/s'::text, array[500]), array_fill(0::float8, array[500]), 1`
  for (const plan of await explained(client, READ_RECEIPTS, args)) {
    assert.equal(plan['Actual Rows'], 500)
    assert.deepEqual(
      scans(plan).filter(({ 'Node Type': type }) => type === 'Seq Scan'),
      [],
    )
  }
})

test('the ids that a report looks for are hashed once, and the jobs of its destination are read once', async (t) => {
  const { db, destination, publishMany } = await outboxScene(t)
  await destination('billing')
  const ids = await publishMany(Array.from({ length: 5_000 }, (_, n) => ({ key: `k${n % 10}` })))
  const client = await db.connect()
  await client.query('analyze leasehold.job')
  const list = `'{${ids.join(',')}}'::text[]`
  const plans = [
    ...(await explained(client, READ_UNSENT, `'billing', ${list}`)),
    ...(await explained(client, READ_SENT, `'billing', ${list}, 0`)),
  ]
  for (const plan of plans) {
    const filters = nodesOf(plan).flatMap(({ Filter }) => Filter ?? [])
    assert.ok(
      filters.some((filter) => /hashed SubPlan/.test(filter)),
      JSON.stringify(filters),
    )
    assert.deepEqual(
      nodesOf(plan).filter((node) => /Join|Nested Loop/.test(node['Node Type'])),
      [],
    )
  }
  assert.deepEqual(
    plans.map((plan) => plan['Actual Rows']),
    [5_000, 5_000, 0, 0],
  )
})
