// What a person or a monitor asks must not read the tables of jobs, whatever the planner knows of them: every statement of
// src/inspect that a command sends is explained on empty, fresh and large tables.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { PAGE_OF_DEAD_LETTERS } from '../../src/inspect/dead-letters.sql.ts'
import { LIST_QUEUES, STATS } from '../../src/inspect/stats.sql.ts'
import * as troubleSql from '../../src/inspect/trouble.sql.ts'
import * as whySql from '../../src/inspect/why.sql.ts'
import { suiteDatabase } from '../support/database.ts'
import { type PlanNode, walk } from './judge.ts'

const STATEMENTS: Readonly<Record<string, readonly [sql: string, args: string]>> = {
  LIST_QUEUES: [LIST_QUEUES, '1000'],
  STATS: [STATS, "500, '{q0,q1,q2,q3,q4}', 300000"],
  WHY_PENDING: [whySql.WHY_PENDING, '700, 1000'],
  WHY_PROCESSING: [whySql.WHY_PROCESSING, '7'],
  PAGE_OF_DEAD_LETTERS: [PAGE_OF_DEAD_LETTERS, "null, 'k', null, null, 0, null, null, 1000"],
  COUNT_BLOCKED_KEYS: [troubleSql.COUNT_BLOCKED_KEYS, '1000'],
  FIND_UNHANDLED: [troubleSql.FIND_UNHANDLED, "'{q1,q2}', 5000, 1000"],
}
const LARGE = /^(job|archive|dead_letter|job_attempt|step)(_|$)/

const db = await suiteDatabase()
let client: pg.Client
before(async () => {
  client = await db.connect()
  for (const table of ['job', 'claim', 'dead_letter']) {
    await client.query(`alter table leasehold.${table} set (autovacuum_enabled = off)`)
  }
})
after(() => client.end())

async function explain([sql, args]: readonly [string, string], mode: string, how = ''): Promise<PlanNode> {
  await client.query(`set plan_cache_mode = force_${mode}_plan`)
  await client.query(`prepare explained as ${sql}`)
  try {
    const { rows } = await client.query(`explain (format json ${how}) execute explained(${args})`)
    return rows[0]['QUERY PLAN'][0].Plan
  } finally {
    await client.query('deallocate explained')
  }
}

function scans(plan: PlanNode): string[] {
  const found: string[] = []
  walk(plan, (node) => {
    const relation = String(node['Relation Name'] ?? '')
    if (node['Node Type'] === 'Seq Scan' && LARGE.test(relation)) found.push(`scans ${relation}`)
    const isWalk = /^(Index|Index Only|Bitmap Index) Scan$/.test(node['Node Type'])
    if (isWalk && node['Index Cond'] === undefined && LARGE.test(relation))
      found.push(`walks all of ${node['Index Name']}`)
  })
  return found
}

function judge(state: string, prepare: () => Promise<unknown>): void {
  test(`no statement of a command scans the jobs: ${state}`, async (t) => {
    await prepare()
    for (const [name, statement] of Object.entries(STATEMENTS)) {
      for (const mode of ['generic', 'custom']) {
        await t.test(`${name}, ${mode} plan`, async () => {
          const plan = await explain(statement, mode)
          assert.deepEqual(scans(plan), [])
          // Above jit_above_cost a server may compile the statement at every call, for longer than it runs.
          assert.ok(Number(plan['Total Cost']) < 100_000, `cost ${plan['Total Cost']}`)
        })
      }
    }
  })
}

judge('a new database', async () => {})
judge('vacuumed while it was empty', () => client.query('vacuum analyze'))
judge('filled since', () => fill(50_000))
judge('large and analyzed', async () => {
  await fill(250_000, 50_000)
  await client.query('vacuum analyze')
})

test('on large tables a statement reads pages in proportion to its cap', async (t) => {
  for (const [name, statement] of Object.entries(STATEMENTS)) {
    await t.test(name, async () => {
      const plan = await explain(statement, 'generic', ', analyze, buffers, timing off')
      const pages = Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks'])
      // Five queues, of each up to five counts of 1,000 rows.
      assert.ok(pages <= 40_000, `${pages} pages`)
    })
  }
})

async function fill(count: number, after = 0): Promise<void> {
  await client.query(
    `insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, priority, claim_id, claimed_at,
       lease_generation, attempts, partition_key, key_seq, blocked)
     select n, clock.at + case when n % 7 = 0 then interval '1 day' else interval '0' end, clock.at, n % 1024, 'q' || n % 5, 'k', '{}',
       n % 3 + 4, case when n <= 500 then 1 end, case when n <= 500 then clock.at end, 1,
       case when n <= 500 then 1 else n % 2 end,
       case when n % 5 = 4 then 'key' || n % 1000 end, case when n % 5 = 4 then n end, n % 5 = 4 and n > 500
     from generate_series($2 + 1, $1::int) n, (select leasehold.clock() - interval '1 minute' as at) clock`,
    [count, after],
  )
  await client.query(
    `insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts, crashes,
       priority, partition_bucket, salt, queue, kind, reason, payload)
     select 2000000 + n, now(), now(), now(), 1, 1, 5, 0, 5, 0, 1, 'q' || n % 5, 'k', 'fatal', '1'
     from generate_series($2 + 1, $1::int) n where n % 10 = 0`,
    [count, after],
  )
  if (after > 0) return
  await client.query(
    `insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
     values (1, gen_random_uuid(), now(), now() + interval '1 minute', array(select generate_series(1, 500)))`,
  )
}
