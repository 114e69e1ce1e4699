// Functions of workflows read as many rows as they need, whatever else is in the tables: counted by the server, in one transaction.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type pg from 'pg'
import { freshDatabase } from '../support/database.ts'

/** 20,000 runs that wait, each with five steps and two signals that are noticed; and the first ten of them signalled anew. */
const FILL = `
  insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, idempotency_key, waiting_for, attempts, salt)
  select n, leasehold.clock() + interval '1 year', leasehold.clock(), 0, 'flow', 'flow@1', '0', 'run ' || n, '{go}', 0, 0
  from generate_series(1, 20000) n;
  insert into leasehold.idempotency_key (queue, key, job_id, keep_for, input_hash, due_at)
  select 'flow', 'run ' || n, n, interval '1 day', '', leasehold.clock() + interval '1 day' from generate_series(1, 20000) n;
  insert into leasehold.step (job_id, recorded_at, started_at, lease_generation, worker_id, place, nth, salt, attempt, state, type, name)
  select n, leasehold.clock(), leasehold.clock(), 1, gen_random_uuid(), place, 1, 0, 1, 'recorded', 'step', 'step ' || place
  from generate_series(1, 20000) n, generate_series(1, 5) place;
  insert into leasehold.signal (job_id, sent_at, salt, noticed, name)
  select n, leasehold.clock(), 0, true, 'go' from generate_series(1, 20000) n, generate_series(1, 2);
  insert into leasehold.signal (job_id, sent_at, salt, name) select n, leasehold.clock(), 0, 'go' from generate_series(1, 10) n;
  select setval('leasehold.job_id', 30000)`

const READ = `select coalesce(sum(seq_tup_read), 0)::int as scanned, coalesce(sum(idx_tup_fetch), 0)::int as found
  from pg_stat_xact_user_tables where schemaname = 'leasehold'`

async function readBy(client: pg.Client, call: string): Promise<{ scanned: number; found: number }> {
  await client.query('begin')
  const before = (await client.query(READ)).rows[0]
  await client.query(call)
  const after = (await client.query(READ)).rows[0]
  await client.query('rollback')
  return { scanned: after.scanned - before.scanned, found: after.found - before.found }
}

/** Of a run in the middle: a plan that walks an index from its start would find the first ones early. */
const CALLS: Readonly<Record<string, string>> = {
  'a signal': "select leasehold.signal('flow', 'run 15000', 'go')",
  'waking the runs of ten signals': 'select leasehold.wake_signalled(0, 500)',
  'waking none': 'select leasehold.wake_signalled(1000000, 500)',
  'consuming a signal':
    'select leasehold.consume(array[15000::bigint], array[(select min(id) from leasehold.signal where job_id = 15000)])',
  'whether a run has begun': 'select leasehold.has_begun(15000)',
  'a rewind': "select leasehold.rewind(15000, 'step 3', 1, false)",
  'ending a run': "select leasehold.terminate(15000, 'why', null)",
  'pausing a run': 'select leasehold.pause_run(15000, true, null)',
  'a look at a hundred rows to prune': 'select leasehold.prune_runs(14900, 100)',
  'the end of a job that has a parent': "select leasehold.notify_parent(15000, 15001, 'completed', '1', null)",
}

/** Far below the 20,000 runs, and far above what any call needs: the planner itself may look at both ends of an index. */
const MOST = 1_000

const STATES: Readonly<Record<string, (client: pg.Client) => Promise<void>>> = {
  'never analyzed': async (client) => {
    await client.query(FILL)
  },
  'vacuumed while they were empty': async (client) => {
    await client.query('vacuum analyze')
    await client.query(FILL)
  },
  analyzed: async (client) => {
    await client.query(FILL)
    await client.query('analyze')
  },
}

for (const [state, prepare] of Object.entries(STATES)) {
  test(`functions of workflows find their rows by index in tables that were ${state}`, async (t) => {
    const db = await freshDatabase(t)
    const client = await db.connect()
    // Autovacuum may come while the tables are filled, and find them empty: that is a state of its own here.
    for (const table of ['job', 'dead_letter', 'idempotency_key', 'step', 'signal']) {
      await client.query(`alter table leasehold.${table} set (autovacuum_enabled = off)`)
    }
    await prepare(client)
    for (const [what, call] of Object.entries(CALLS)) {
      const { scanned, found } = await readBy(client, call)
      assert.ok(scanned <= 50 && found <= MOST, `${what}: ${scanned} by a scan, ${found} by index`)
    }
  })
}
