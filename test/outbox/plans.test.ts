// What a batch loads, and what a publish and a replay look at, are found by index in the partitions that hold them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { LOAD_EVENTS } from '../../src/outbox/outbox.sql.ts'
import { outboxScene } from './scene.ts'

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Loops'?: number
  readonly 'Actual Rows'?: number
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
