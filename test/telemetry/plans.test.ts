// A scrape reads no more than its caps.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QUEUE_DEPTHS } from '../../src/telemetry/queue-depths.sql.ts'
import { type PlanNode, walk } from '../plans/judge.ts'
import { freshDatabase } from '../support/database.ts'

const JOBS = 100_000
const MOST_JOBS = 500

const FILL_JOBS = `insert into leasehold.job (queue, kind, payload, partition_bucket, available_at, created_at, crashes, priority)
  select 'q' || n % 5, 'k', '{}', 0, now() - n * interval '1 s', now(), (n % 50 = 0)::int, n % 10 from generate_series(1, $1) n`
const FILL_DEAD_LETTERS = `insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts,
    max_attempts, crashes, priority, partition_bucket, salt, queue, kind, reason, payload)
  select -n, now(), now(), now(), 1, 1, 1, 0, 5, 0, 1, 'q' || n % 7, 'k', 'fatal', '{}' from generate_series(1, $1) n`

test('a scrape of long queues walks indexes, and stops at the cap', async (t) => {
  const db = await freshDatabase(t)
  const client = await db.connect()
  for (const table of ['job', 'dead_letter'])
    await client.query(`alter table leasehold.${table} set (autovacuum_enabled = off)`)
  await client.query(FILL_JOBS, [JOBS])
  await client.query(FILL_DEAD_LETTERS, [JOBS])
  await client.query(`prepare scrape as ${QUEUE_DEPTHS}`)
  // Without statistics the dead letters of a queue may be sorted: not judged here.
  await client.query('vacuum analyze leasehold.job, leasehold.dead_letter')
  for (const analyzed of [true]) {
    for (const mode of ['generic', 'custom']) {
      await client.query(`set plan_cache_mode = force_${mode}_plan`)
      const explain = `explain (analyze, buffers, timing off, format json) execute scrape(100, ${MOST_JOBS})`
      const { rows } = await client.query(explain)
      const plan: PlanNode = rows[0]['QUERY PLAN'][0].Plan
      const how = `${mode}, ${analyzed ? 'analyzed' : 'never analyzed'}`
      walk(plan, (node) => {
        assert.ok(node['Node Type'] !== 'Seq Scan', `${how}: scans ${node['Relation Name']}`)
        if (node['Relation Name'] === undefined) return
        const read = Number(node['Actual Rows']) + Number(node['Rows Removed by Filter'] ?? 0)
        assert.ok(read <= 2 * MOST_JOBS, `${how}: ${node['Node Type']} on ${node['Relation Name']} reads ${read} rows`)
      })
    }
  }
  const { rows } = await client.query(`execute scrape(100, ${MOST_JOBS})`)
  assert.deepEqual(
    rows.map((row) => row.queue),
    ['q0', 'q1', 'q2', 'q3', 'q4', 'q5', 'q6'],
  )
  assert.deepEqual(
    [rows[0].ready, rows[0].dead_letters, rows[6].ready],
    [String(2 * MOST_JOBS), String(MOST_JOBS), '0'],
  )
})
