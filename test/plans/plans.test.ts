// Plans are the product: every statement that runs often is explained in every mode and state in which the planner has
// been seen to go wrong. Nothing here measures time.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type pg from 'pg'
import { ENQUEUE_ALIKE } from '../../src/jobs/enqueue.sql.ts'
import { suiteDatabase } from '../support/database.ts'
import { ALL, BATCH, CLAIMS, COLD, FINISHES, HOT, type Hot, NOW_AND_THEN } from './catalogue.ts'
import { faults, type PlanNode, walk } from './judge.ts'

const db = await suiteDatabase()
let client: pg.Client

before(async () => {
  client = await db.connect()
  await client.query("load 'auto_explain'")
  await client.query(`set auto_explain.log_level = notice; set auto_explain.log_format = json;
    set auto_explain.log_nested_statements = on; set auto_explain.log_analyze = on; set auto_explain.log_buffers = on;
    set auto_explain.log_timing = off; set auto_explain.log_verbose = on; set auto_explain.log_min_duration = -1`)
  // The suite decides when statistics exist.
  for (const table of ['job', 'claim', 'dead_letter', 'idempotency_key', 'effect', 'inbox']) {
    await client.query(`alter table leasehold.${table} set (autovacuum_enabled = off)`)
  }
})
after(() => client.end())

/** Arguments of EXECUTE may not hold subselects, so they become literals first. */
async function literals(args: readonly string[]): Promise<string> {
  const text = `select array[${args.map((arg) => `quote_nullable(${arg})`).join(', ')}] as literals`
  const { rows } = await client.query<{ literals: string[] }>(text)
  return rows[0]!.literals.join(', ')
}

async function explain({ sql, args }: Hot, mode: 'generic' | 'custom', how = ''): Promise<PlanNode> {
  await client.query(`set plan_cache_mode = force_${mode}_plan`)
  await client.query(`prepare explained as ${sql}`)
  await client.query('begin')
  try {
    const given = await literals(args)
    const { rows } = await client.query(`explain (format json, verbose ${how}) execute explained(${given})`)
    return rows[0]['QUERY PLAN'][0].Plan
  } finally {
    await client.query('rollback')
    await client.query('deallocate explained')
  }
}

/** The plans inside a function, as auto_explain reports them. */
async function explainInside(call: string): Promise<PlanNode[]> {
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
  const inside = plans.filter((plan) => plan['Function Name'] !== 'claim' && plan['Function Name'] !== 'finish')
  assert.equal(plans.length - inside.length, 1, 'the call itself')
  return inside
}

function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

function explainAll(state: string, statements: Record<string, Hot>, prepare: () => Promise<void>): void {
  test(`plans on ${state}`, async (t) => {
    await prepare()
    const { rows } = await client.query<{ name: string }>(
      `select relname as name from pg_class where relispartition and relkind = 'r' and pg_relation_size(oid) = 0`,
    )
    const emptyPartitions = new Set(rows.map((row) => row.name))
    for (const [name, call] of Object.entries(CLAIMS)) {
      await t.test(`${name}: only the index walk`, async () => {
        const plans = await explainInside(call)
        assert.ok(
          plans.some((plan) => nodesOf(plan).some((node) => node['Node Type'] === 'ProjectSet')),
          'the walk is among them',
        )
        for (const plan of plans) assert.deepEqual(faults(plan), [], JSON.stringify(plan, null, 1))
      })
    }
    for (const [name, call] of Object.entries(FINISHES)) {
      await t.test(`finish, ${name}: probes by index, and joins only lists`, async () => {
        const plans = await explainInside(call)
        assert.ok(plans.length > 0)
        for (const plan of plans) assert.deepEqual(faults(plan, emptyPartitions), [], JSON.stringify(plan, null, 1))
      })
    }
    for (const [name, statement] of Object.entries(statements)) {
      for (const mode of ['generic', 'custom'] as const) {
        await t.test(`${name}, ${mode} plan`, async () => {
          const plan = await explain(statement, mode)
          assert.deepEqual(faults(plan, emptyPartitions), [], JSON.stringify(plan, null, 1))
        })
      }
    }
  })
}

test('the catalogue holds every statement', () => {
  const known = new Set([...Object.values({ ...HOT, ...NOW_AND_THEN }).map((statement) => statement.sql), ...COLD])
  assert.deepEqual(
    ALL.filter((sql) => !known.has(sql)),
    [],
  )
})

test('a claim whose kinds are all paused does not walk the backlog', async () => {
  const pause = "insert into leasehold.pause (kind, at) values ('plan', now())"
  const plans = await explainInside(`${pause}; ${CLAIMS['the claim']}`)
  const looks = plans.flatMap(nodesOf).filter((node) => node['Relation Name'] === 'job')
  assert.ok(looks.length > 0)
  assert.ok(looks.every((node) => node['Actual Loops'] === 0))
})

explainAll('a new database', HOT, async () => {})

explainAll('tables vacuumed while empty, as a queue that keeps up is', HOT, async () => {
  await client.query('vacuum analyze')
})

explainAll('a queue that was vacuumed with a handful of rows', HOT, async () => {
  await fill(20)
  await client.query('vacuum analyze')
})

explainAll('a burst into a queue that was vacuumed nearly empty', HOT, async () => {
  await fill(200_000, 20)
})

explainAll('a table freshly filled and never analyzed', { ...HOT, ...NOW_AND_THEN }, async () => {
  await empty()
  await fill(20_000)
})

explainAll('a million rows', { ...HOT, ...NOW_AND_THEN }, async () => {
  await empty()
  await fill(1_000_000)
  await client.query('vacuum analyze')
})

test('on a million rows a batch reads pages in proportion to the batch, in either mode', async (t) => {
  const check = (plan: PlanNode) => {
    const pages = Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks'])
    assert.ok(pages <= BATCH * 60, `${pages} pages for ${BATCH} rows`)
    walk(plan, (node) => {
      for (const [property, value] of Object.entries(node)) {
        if (!property.startsWith('Rows Removed by')) continue
        const removed = Number(value) * Number(node['Actual Loops'] ?? 1)
        assert.ok(removed <= BATCH * 4, `${node['Node Type']} ${property}: ${removed}`)
      }
    })
  }
  for (const [name, call] of Object.entries({ ...CLAIMS, ...FINISHES })) {
    await t.test(name, async () => {
      for (const plan of await explainInside(call)) check(plan)
    })
  }
  for (const [name, statement] of Object.entries({ ...HOT, ...NOW_AND_THEN })) {
    for (const mode of ['generic', 'custom'] as const) {
      await t.test(`${name}, ${mode} plan`, async () => {
        check(await explain(statement, mode, ', analyze, buffers, timing off'))
      })
    }
  }
})

// Postgres plans a statement anew each time while it expects that to be cheaper. Planning a completion takes longer than running it.
test('on a million rows a statement about one job is planned once a connection', async (t) => {
  await client.query('set plan_cache_mode = auto')
  for (const [name, { sql, args }] of Object.entries(HOT)) {
    await t.test(name, async () => {
      const isList = (arg: string) => arg.startsWith('array') && sql !== ENQUEUE_ALIKE
      const given = await literals(args.map((arg) => (isList(arg) ? `(${arg})[1:1]` : arg)))
      await client.query(`prepare repeated as ${sql}`)
      try {
        for (let time = 0; time < 7; time++) await client.query(`begin; execute repeated(${given}); rollback`)
        const { rows } = await client.query("select generic_plans from pg_prepared_statements where name = 'repeated'")
        assert.equal(Number(rows[0].generic_plans), 2)
      } finally {
        await client.query('rollback; deallocate repeated')
      }
    })
  }
})

async function empty(): Promise<void> {
  await client.query('truncate leasehold.job, leasehold.claim, leasehold.dead_letter, leasehold.idempotency_key')
  await client.query('truncate leasehold.effect, leasehold.inbox')
  await client.query('truncate leasehold.archive, leasehold.job_attempt')
  await client.query('select leasehold.reserve_pages()')
}

/** Jobs 1–500 are processing; a tenth have a key, an expiry, or were archived or buried before. */
async function fill(count: number, after = 0): Promise<void> {
  await client.query(
    `insert into leasehold.job (id, available_at, created_at, partition_bucket, queue, kind, payload, priority,
       lease_generation, claim_id, claimed_at, attempts, crashes, expires_at)
     select n, clock.at, clock.at, n % 1024, 'plan', 'plan', '{"some": "payload of an ordinary size"}', n % 3 + 4,
       case when n <= 500 then 1 else 0 end, case when n <= 500 then 1 end, case when n <= 500 then clock.at end,
       case when n <= 500 then 1 else 0 end, case when n % 10000 = 9999 then 1 else 0 end,
       case when n % 10 = 0 then clock.at + interval '1 hour' end
     from generate_series($2 + 1, $1::int) n, (select leasehold.clock() - interval '1 minute' as at) clock`,
    [count, after],
  )
  if (after > 0) return
  await client.query("select setval('leasehold.job_id', 8000000)")
  await client.query(
    `insert into leasehold.claim (id, worker_id, claimed_at, expires_at, job_ids)
     select n, '6e4b6e1c-9d1c-4c8c-8f0e-0d7f4f3f0a11', now() - interval '1 minute', now() + n * interval '1 second',
       array(select generate_series(1, 500)) from generate_series(1, least($1 / 10, 5000)) n`,
    [count],
  )
  await client.query(
    `insert into leasehold.idempotency_key
     select 'plan', 'k' || n, n, '1 hour', '\\x00', now() - interval '1 hour' from generate_series(1, $1 / 10) n`,
    [count],
  )
  await client.query(
    `insert into leasehold.effect (job_id, name, lease_generation, salt, started_at)
     select n, 'a', 1, 0, now() - interval '1 minute' from generate_series(1, $1 / 5) n`,
    [count],
  )
  await client.query(
    `insert into leasehold.inbox (source, event_id, received_at, forget_at)
     select 'plan', n::text, now(), now() + (n - $1 / 20) * interval '1 second' from generate_series(1, $1 / 5) n`,
    [count],
  )
  await client.query(
    `insert into leasehold.dead_letter (id, died_at, available_at, created_at, lease_generation, attempts, max_attempts,
       crashes, priority, partition_bucket, salt, queue, kind, reason, payload)
     select 2000000 + n, now(), now(), now(), 1, 1, 5, 0, 5, 0, 1, 'plan', 'plan', 'fatal', '1'
     from generate_series(1, $1 / 10) n`,
    [count],
  )
  await client.query(
    `insert into leasehold.archive (id, finished_at, available_at, created_at, lease_generation, claim_id, claimed_at, status,
       attempts, max_attempts, priority, partition_bucket, queue, kind, payload)
     select 4000000 + n, now(), now(), now(), 1, 1, now(), 'completed', 1, 5, 5, 0, 'plan', 'plan', '1'
     from generate_series(1, $1 / 10) n`,
    [count],
  )
}
