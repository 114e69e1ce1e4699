// `npm run demo:effects`, run for real: the naive ways do damage, and claim and guard prevent it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Crew } from '../demo/effects/crew.ts'
import { Database } from '../demo/effects/database.ts'
import { ToyQueue } from '../demo/effects/queue.ts'
import { ENTITIES, EVALUATIONS, FATES, idsOf, OVERWRITTEN, PAID_TWICE, ROWS } from '../demo/effects/scale.ts'
import { billOf, findings } from '../demo/effects/verdict.ts'
import { Llm } from '../demo/llm.ts'
import { effectOf } from '../demo/summary.ts'
import { callProvider } from '../tools/provider.ts'
import { freshDatabase } from './support/database.ts'
import { checkInterrupt, checkUsage, Demo } from './support/demo.ts'

const PROGRAM = 'demo/effects/run.ts'

test('naive ways pay twice and open twice; claim and guard do not, and nothing is left behind', async (t) => {
  const demo = new Demo(t, PROGRAM)
  assert.equal(await demo.ended, 0, demo.output)
  const isAsExpected = (what: string, expected: number) =>
    assert.deepEqual(demo.verdict(what), [expected, expected, '✓'], what)
  isAsExpected('messages delivered twice or more', 3 * ROWS)
  isAsExpected('rows finished', 3 * ROWS)
  isAsExpected('naive: rows paid for twice', PAID_TWICE)
  isAsExpected('naive: finished results overwritten', OVERWRITTEN)
  isAsExpected('one UPDATE: rows paid for twice', PAID_TWICE)
  isAsExpected('one UPDATE: finished results overwritten', 0)
  isAsExpected('one UPDATE: late results, answered "already handled"', OVERWRITTEN)
  isAsExpected('two phases: calls, with those that were cut off', ROWS + FATES.killed)
  isAsExpected('two phases: rows paid for twice', 0)
  isAsExpected('two phases: finished results overwritten', 0)
  isAsExpected('two phases: rows of the killed worker, taken back', FATES.killed)
  isAsExpected('two phases: their second calls, known by key', FATES.killed)
  isAsExpected('without the guard: entities with more than one incident', ENTITIES)
  isAsExpected('with the guard: entities with more than one incident', 0)
  isAsExpected('with the guard: open incidents', ENTITIES)
  isAsExpected('with the guard: writes refused', EVALUATIONS - ENTITIES)
  isAsExpected('evaluations at once, over 6 connections', EVALUATIONS)
  isAsExpected('connections in use or waited for meanwhile', 0)
  assert.match(demo.output, /at 3 cents each +\$1\.50 +\$1\.50 +\$1\.20\n/)
  assert.ok(!demo.output.includes('\x1b'), 'without a terminal there are no escape codes')
  for (const line of demo.output.split('\n')) assert.ok(line.length <= 100, line)
  await demo.untilGone()
})

test('without the claim and the guard the demo fails', async (t) => {
  const demo = new Demo(t, PROGRAM, '--unguarded')
  assert.equal(await demo.ended, 1, demo.output)
  assert.deepEqual(demo.verdict('two phases: rows paid for twice'), [PAID_TWICE, 0, '✗'])
  assert.deepEqual(demo.verdict('two phases: their second calls, known by key'), [0, FATES.killed, '✗'])
  assert.deepEqual(demo.verdict('with the guard: entities with more than one incident'), [ENTITIES, 0, '✗'])
  assert.deepEqual(demo.verdict('with the guard: writes refused'), [0, EVALUATIONS - ENTITIES, '✗'])
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', (t) => checkInterrupt(t, PROGRAM, 'kill -9: worker 2'))

test('kill -9 in the middle of the evaluations leaves nothing behind either', async (t) => {
  const demo = new Demo(t, PROGRAM)
  await demo.printed('Evaluating:')
  demo.kill('SIGKILL')
  await demo.untilGone()
})

test('the demo prints its usage, and refuses unknown arguments', (t) => checkUsage(t, PROGRAM, 'demo:effects'))

test('the verdict finds rows paid twice, overwritten, unfinished and opened twice', async (t) => {
  const { url } = await freshDatabase(t)
  const [database, llm] = [await Database.open(url), await Llm.start()]
  t.after(() => Promise.all([database.close(), llm.stop()]))
  for (const id of [101, 102, 301]) await callProvider(llm.url, effectOf(id))
  await callProvider(llm.url, effectOf(101))
  await callProvider(llm.url, effectOf(302), 'key')
  await callProvider(llm.url, effectOf(302), 'key')
  await database.addRows(idsOf(1))
  await database.pool.query(`update summary set status = 'completed', result = 'first' where id <> 140`)
  await database.pool.query(`update summary set result = 'second' where id = 101`)
  await database.pool.query(`
    insert into incident (round, entity_id, is_open, opened_by)
    values (2, 7, true, ''), (2, 7, true, ''), (2, 8, true, ''), (2, 8, false, '')`)

  const nobody = undefined as unknown as Crew
  const queue = new ToyQueue(nobody, AbortSignal.abort())
  const found = new Map((await findings({ database, llm, queue })).map((finding) => [finding.what, finding.found]))
  assert.equal(found.get('messages delivered twice or more'), 0)
  assert.equal(found.get('rows finished'), ROWS - 1)
  assert.equal(found.get('naive: rows paid for twice'), 1)
  assert.equal(found.get('naive: finished results overwritten'), 1)
  assert.equal(found.get('two phases: rows paid for twice'), 0)
  assert.equal(found.get('two phases: calls, with those that were cut off'), 3)
  assert.equal(found.get('with the guard: entities with more than one incident'), 1)
  assert.equal(found.get('with the guard: open incidents'), 3)
  const bill = { calls: 3, billed: 3, rowsPaidTwice: 1, rows: ROWS, overwritten: 1, unfinished: 1 }
  assert.deepEqual(await billOf({ database, llm }, 1), bill)
})
