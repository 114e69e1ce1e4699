// The registry keeps workers for 90 days. What beats, lists and counts must not read those that have ended.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { QUEUE_RATES } from '../../src/inspect/stats.sql.ts'
import {
  LIST_DEAD_WORKERS,
  LIST_FLEET_EVENTS,
  LIST_RUNNING_WORKERS,
  LIST_STOPPED_WORKERS,
} from '../../src/inspect/workers.sql.ts'
import { BEAT, NOT_HANDLED, UNHANDLED_KINDS } from '../../src/jobs/registry.sql.ts'
import { FLEET } from '../../src/jobs/wake.sql.ts'
import { suiteDatabase } from '../support/database.ts'
import { type PlanNode, walk } from './judge.ts'

const db = await suiteDatabase()

const RUNNING = 16
const ENDED = 10_000
const WORKER = "'00000000-0000-0000-0000-000000000001'::uuid"
const STATEMENTS: Record<string, { readonly sql: string; readonly args: string; readonly rows: number }> = {
  BEAT: { sql: BEAT, args: `${WORKER}, 1, 1, 0.5, 1000, '{"mail": [1, 0]}'`, rows: 2 * RUNNING },
  FLEET: { sql: FLEET, args: "array['task']", rows: RUNNING },
  UNHANDLED_KINDS: { sql: UNHANDLED_KINDS, args: "array['task'], 1000", rows: RUNNING },
  NOT_HANDLED: { sql: NOT_HANDLED, args: "array['nothing']", rows: RUNNING + 1 },
  LIST_RUNNING_WORKERS: { sql: LIST_RUNNING_WORKERS, args: "array['active', 'draining'], 'task', 1000", rows: RUNNING },
  LIST_DEAD_WORKERS: { sql: LIST_DEAD_WORKERS, args: "'task', 10", rows: 10 },
  LIST_STOPPED_WORKERS: { sql: LIST_STOPPED_WORKERS, args: "'task', 10", rows: 10 },
  QUEUE_RATES: { sql: QUEUE_RATES, args: '', rows: RUNNING },
  LIST_FLEET_EVENTS: { sql: LIST_FLEET_EVENTS, args: 'null, 10', rows: 10 },
}

test('with 10,000 workers that stopped, as many that died and 16 that run, no statement reads those it does not need', async () => {
  await db.pool.query(
    `insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at, stopped_at, dead_at)
     select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'w', '0', '{task}', '{task}', now(), now(),
       case when n > $1 and n % 2 = 0 then now() - n * interval '1 s' end,
       case when n > $1 and n % 2 = 1 then now() - n * interval '1 s' end
     from generate_series(1, $1 + 2 * $2) n`,
    [RUNNING, ENDED],
  )
  await db.pool.query(`select leasehold.note_fleet('joined', ${WORKER}, 'w') from generate_series(1, $1)`, [ENDED])
  const client = await db.connect()
  for (const state of ['without statistics', 'analyzed']) {
    if (state === 'analyzed') await client.query('analyze leasehold.worker, leasehold.fleet_event')
    for (const mode of ['generic', 'custom']) {
      await client.query(`set plan_cache_mode = force_${mode}_plan`)
      for (const [name, { sql, args, rows }] of Object.entries(STATEMENTS)) {
        await client.query(`prepare explained as ${sql}`)
        await client.query('begin')
        const answer = await client.query(
          `explain (analyze, format json, timing off) execute explained${args && `(${args})`}`,
        )
        await client.query('rollback')
        await client.query('deallocate explained')
        assert.ok(
          read(answer.rows[0]['QUERY PLAN'][0].Plan) <= rows,
          `${name}, ${state}, ${mode}: ${JSON.stringify(answer.rows[0])}`,
        )
      }
    }
  }
  await client.end()
})

/** Rows of the registry and of its log that the plan looked at, those that a filter dropped included. */
function read(plan: PlanNode): number {
  let rows = 0
  walk(plan, (node) => {
    if (node['Relation Name'] !== 'worker' && node['Relation Name'] !== 'fleet_event') return
    if (node['Node Type'] === 'ModifyTable') return
    const loops = Number(node['Actual Loops'])
    rows += loops * (Number(node['Actual Rows']) + Number(node['Rows Removed by Filter'] ?? 0))
  })
  return rows
}
