// The plans inside the functions that keep the order: each reads jobs, dead letters and keys by an index, and by a condition on
// it, whatever the planner knows of the tables.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { type PlanNode, walk } from '../plans/judge.ts'
import { suiteDatabase } from '../support/database.ts'

const db = await suiteDatabase()
let client: pg.Client
const WORKER = "'6e4b6e1c-9d1c-4c8c-8f0e-0d7f4f3f0a11'"
const KEYS = "array(select 'k' || n from generate_series(1, 200) n)"
const QUEUES = "array_fill('plan'::text, array[200])"
const filled = (value: string, type: string) => `array_fill(${value}::${type}, array[200])`

/** The two hundred keys k1 to k200 have jobs in front that are claimed: 1 to 200. */
const CALLS: Record<string, string> = {
  'advance, after a cancellation': `select leasehold.advance(${QUEUES}, ${KEYS})`,
  'advance, after a completion': `select leasehold.advance(${QUEUES}, ${KEYS}, ${filled('1', 'bigint')})`,
  'advance, of keys that are empty': `select leasehold.advance(${QUEUES}, array(select 'none' || n from generate_series(1, 200) n))`,
  'a claim with runs': `select count(*) from leasehold.claim(99, ${WORKER}, 30000, 100, array['plan'], array['plan'], run_length => 10)`,
  'an enqueue': `select count(*) from leasehold.enqueue_in_order(${QUEUES}, ${filled("'plan'", 'text')}, ${filled("'1'", 'text')},
    ${filled('5', 'smallint')}, ${filled('5', 'smallint')}, ${filled('5', 'smallint')}, ${filled('0', 'float8')},
    array(select jsonb_build_object('partition_key', 'k' || n) from generate_series(1, 200) n))`,
  'an enqueue of alike jobs': `select leasehold.enqueue_alike_in_order('plan', 'plan',
    (select jsonb_agg(n)::text from generate_series(1, 200) n), 5::smallint, 5::smallint, ${filled('5', 'smallint')}, 0, to_jsonb(${KEYS})::text)`,
  'a completion of many': `select leasehold.finish('completed', array(select generate_series(1, 200))::bigint[], ${WORKER},
    fence => 1, keep_all_ms => 1000, lets_in => true, run_from => ${filled('1', 'bigint')})`,
  // Each looks at all jobs of its claim, of which there are 200.
  'dead letters that block': `select leasehold.finish('dead_letter', array(select generate_series(1, 50))::bigint[], ${WORKER},
    array_fill('fatal'::text, array[50]))`,
  'dead letters that park': `update leasehold.queue set on_dead_letter = 'park';
    select leasehold.finish('dead_letter', array[1, 2, 3]::bigint[], ${WORKER}, array['fatal', 'fatal', 'fatal'])`,
  'a check': `insert into leasehold.order_check (queue, key) select 'plan', 'k' || n from generate_series(1, 200) n;
    select leasehold.check_order(array['plan'])`,
  'a redrive':
    'select count(*) from leasehold.redrive_in_order(array(select generate_series(9000001, 9000200))::bigint[])',
  'an unblock': "select leasehold.unblock('plan', 'dead1')",
}
const READ_BY_INDEX = /^(job|dead_letter|order_key)(_|$)/

before(async () => {
  client = await db.connect()
  await client.query("load 'auto_explain'")
  await client.query(`set auto_explain.log_level = notice; set auto_explain.log_format = json;
    set auto_explain.log_nested_statements = on; set auto_explain.log_analyze = on; set auto_explain.log_buffers = on;
    set auto_explain.log_timing = off; set auto_explain.log_verbose = on; set auto_explain.log_min_duration = -1`)
  for (const table of ['job', 'claim', 'dead_letter', 'order_key', 'order_check'])
    await client.query(`alter table leasehold.${table} set (autovacuum_enabled = off)`)
  await client.query("insert into leasehold.queue (name, ordered) values ('plan', true)")
})
after(() => client.end())

async function plansInside(call: string): Promise<PlanNode[]> {
  const plans: PlanNode[] = []
  const read = ({ message }: { message?: string | undefined }) => {
    const plan = message?.slice(message.indexOf('{'))
    if (plan?.includes('"Plan"')) plans.push(JSON.parse(plan).Plan)
  }
  client.on('notice', read)
  await client.query('begin')
  await client.query('set local auto_explain.log_min_duration = 0')
  await client.query(call)
  await client.query('rollback')
  client.off('notice', read)
  return plans
}

function faultsOf(plan: PlanNode): string[] {
  const found: string[] = []
  walk(plan, (node) => {
    const [table, index] = [String(node['Relation Name']), String(node['Index Name'])]
    if (node['Node Type'] === 'Seq Scan' && READ_BY_INDEX.test(table)) found.push(`scans ${table}`)
    const isIndex = /Index/.test(node['Node Type']) && READ_BY_INDEX.test(index)
    if (isIndex && node['Index Cond'] === undefined) found.push(`walks all of ${index}`)
    const removed = Number(node['Rows Removed by Filter'] ?? 0) * Number(node['Actual Loops'] ?? 1)
    if (removed > 2_000) found.push(`reads ${removed} rows of ${table} in vain`)
  })
  return found
}

function explainAll(state: string, prepare: () => Promise<unknown>): void {
  test(`order by index on ${state}`, async (t) => {
    await prepare()
    for (const [name, call] of Object.entries(CALLS)) {
      await t.test(name, async () => {
        const plans = await plansInside(call)
        assert.ok(plans.length > 1)
        for (const plan of plans) assert.deepEqual(faultsOf(plan), [], JSON.stringify(plan, null, 1))
        const pages = plans.map((plan) => Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks']))
        assert.ok(Math.max(...pages) < 60_000, `${Math.max(...pages)} pages`)
      })
    }
  })
}

/** Of each of a tenth as many keys ten jobs, of which the first is in the claim index; those of the first 200 are claimed. */
async function fill(count: number): Promise<void> {
  await client.query(
    'truncate leasehold.job, leasehold.claim, leasehold.dead_letter, leasehold.order_key, leasehold.order_check',
  )
  await client.query(
    `insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, partition_key, key_seq,
       blocked, lease_generation, claim_id, claimed_at, attempts)
     select n, now() - interval '1 minute', now(), 1, 'plan', 'plan', '{"some": "payload of an ordinary size"}',
       'k' || (n - 1) % ($1::int / 10) + 1, n, n > $1::int / 10, case when n <= 200 then 1 else 0 end,
       case when n <= 200 then 1 end, case when n <= 200 then now() end, case when n <= 200 then 1 else 0 end
     from generate_series(1, $1::int) n`,
    [count],
  )
  await client.query("select setval('leasehold.job_id', 9500000)")
  await client.query(
    'insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids) select 1, $1, now(), now(), array(select generate_series(1, 200))',
    [WORKER.slice(1, -1)],
  )
  await client.query(
    `insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts, crashes,
       priority, partition_bucket, salt, blocks_key, key_seq, queue, kind, reason, payload, partition_key)
     select 9000000 + n, now(), now(), now(), 1, 1, 1, 0, 5, 1, 1, n % 2 = 0, 9000000 + n, 'plan', 'plan', 'fatal', '1', 'dead' || n
     from generate_series(1, $1 / 10) n`,
    [count],
  )
  await client.query(`insert into leasehold.order_key (queue, key)
    select distinct queue, partition_key from leasehold.job union select queue, partition_key from leasehold.dead_letter where blocks_key`)
}

explainAll('a new database', async () => {})
explainAll('tables vacuumed while empty', () => client.query('vacuum analyze'))
explainAll('20,000 jobs that were never analyzed', () => fill(20_000))
explainAll('200,000 jobs in tables that were analyzed with a handful', async () => {
  await fill(2_000)
  await client.query('vacuum analyze')
  await fill(200_000)
})
explainAll('200,000 jobs, analyzed', () => client.query('vacuum analyze'))
