// docs/sql.md lists every column, option and word of the database, in the database's order.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ATTEMPT_OUTCOMES } from '../src/inspect/attempts.ts'
import { WORKER_STATES } from '../src/inspect/workers.ts'
import { suiteDatabase } from './support/database.ts'

const { pool } = await suiteDatabase()
const page = readFileSync(new URL('../docs/sql.md', import.meta.url), 'utf8')

/** The first cells of each table under a heading, by the name of their column. */
function tablesUnder(heading: string): Record<string, string[]> {
  const [, section] = page.split(new RegExp(`^#+ ${heading.replaceAll(/[.()]/g, '\\$&')}.*$`, 'm'))
  assert.ok(section !== undefined, heading)
  const tables = section.split(/^#/m)[0]!.matchAll(/^\| (\w+) \|.*\n\|[-|]+\n((?:\|.*\n)+)/gm)
  return Object.fromEntries(
    [...tables].map(([, name, rows]) => [name, [...rows!.matchAll(/^\| `(\w+)` \|/gm)].map(([, cell]) => cell!)]),
  )
}

async function only<Value>(query: string, values: unknown[] = []): Promise<Value> {
  const { rows } = await pool.query<{ value: Value }>(query, values)
  assert.equal(rows.length, 1, query)
  return rows[0]!.value
}

const words = (text: string) => [...text.matchAll(/'(\w+)'/g)].map(([, word]) => word!)

function labelsOf(type: string): Promise<string[]> {
  return only(`select enum_range(null::leasehold.${type})::text[] as value`)
}

async function allowedBy(constraint: string): Promise<string[]> {
  return words(
    await only('select pg_get_constraintdef(oid) as value from pg_constraint where conname = $1', [constraint]),
  )
}

for (const view of [
  'jobs',
  'attempts',
  'workers',
  'seats',
  'fleet_events',
  'blocked_keys',
  'operator_actions',
  'destinations',
  'runs',
  'steps',
]) {
  test(`the page lists the columns of leasehold.${view}`, async () => {
    const columns = await only(
      `select array_agg(attname::text order by attnum) as value from pg_attribute where attrelid = $1::regclass and attnum > 0`,
      [`leasehold.${view}`],
    )
    assert.deepEqual(tablesUnder(`\`leasehold.${view}\``).column, columns)
  })
}

test('the page lists every view, and no other', async () => {
  const views = await only<string[]>(
    `select array_agg(viewname::text order by viewname) as value from pg_views where schemaname = 'leasehold'`,
  )
  assert.deepEqual([...page.matchAll(/^## `leasehold\.(\w+)`$/gm)].map(([, name]) => name).sort(), views)
})

test('the page lists the options and outcomes of leasehold.enqueue()', async () => {
  const source = await only<string>(`select prosrc as value from pg_proc where oid = 'leasehold.enqueue'::regproc`)
  const { option, outcome } = tablesUnder('`leasehold.enqueue(kind, payload, options)`')
  assert.deepEqual(option, words(/known constant text\[\] := array\[([^\]]*)\]/.exec(source)![1]!))
  const given = [...source.matchAll(/outcome := ([^;]*);/g)].flatMap(([, value]) => words(value!))
  assert.deepEqual([...outcome!].sort(), given.sort())
})

test('the page lists the statuses and the labels of jobs', async () => {
  assert.deepEqual(tablesUnder('Status').status, await labelsOf('job_status'))
  const definition = await only<string>(`select pg_get_viewdef('leasehold.jobs') as value`)
  const label = /CASE\s+WHEN \(?j\.claim_id IS NOT NULL\)? THEN NULL[\s\S]*?END AS label/.exec(definition)![0]
  assert.deepEqual(tablesUnder('Label').label, words(label))
})

test('the page lists the reasons of dead letters', async () => {
  assert.deepEqual(tablesUnder('Reason').reason, await allowedBy('dead_letter_reason'))
})

test('the page lists the outcomes of attempts, and so does the type', async () => {
  const outcomes = ['completed', ...(await labelsOf('attempt_outcome'))]
  assert.deepEqual(tablesUnder('`leasehold.attempts`').outcome, outcomes)
  assert.deepEqual(ATTEMPT_OUTCOMES, outcomes)
})

test('the page lists the states of workers, and so does the type', async () => {
  const definition = await only<string>(`select pg_get_viewdef('leasehold.workers') as value`)
  const state = /CASE[\s\S]*?END AS state/.exec(definition)![0]
  const states = [...new Set([...state.matchAll(/(?:THEN|ELSE) '(\w+)'/g)].map(([, word]) => word!))]
  assert.deepEqual(tablesUnder('`leasehold.workers`').state, states)
  assert.deepEqual([...WORKER_STATES].sort(), states.sort())
})

test('the page lists what happens to the fleet', async () => {
  assert.deepEqual(tablesUnder('`leasehold.fleet_events`').what, await allowedBy('fleet_event_is_known'))
})

test('the page lists the actions of operators', async () => {
  assert.deepEqual(tablesUnder('`leasehold.operator_actions`').action, await allowedBy('action_is_known'))
})

test('the page lists the outcomes of leasehold.signal(), and the states of steps', async () => {
  const source = await only<string>(`select prosrc as value from pg_proc where oid = 'leasehold.signal'::regproc`)
  const { outcome } = tablesUnder('`leasehold.signal(workflow, run_id, name, payload, idempotency_key)`')
  assert.deepEqual(
    outcome,
    [...source.matchAll(/return '(\w+)'/g)].map(([, word]) => word),
  )
  assert.deepEqual(tablesUnder('`leasehold.steps`').state, await labelsOf('step_state'))
})

test('the page lists the members of an event of leasehold.publish()', async () => {
  const source = await only<string>(`select prosrc as value from pg_proc where oid = 'leasehold.publish'::regproc`)
  const { member } = tablesUnder('`leasehold.publish(event)`')
  assert.deepEqual(member, words(/known constant text\[\] := array\[([^\]]*)\]/.exec(source)![1]!))
})
