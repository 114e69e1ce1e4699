// `npm run demo:sqs`, run for real: with the claim and the key nothing happens twice, and without them the same story fails.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Llm } from '../demo/llm.ts'
import type { Crew } from '../demo/sqs/crew.ts'
import { Queue } from '../demo/sqs/queue.ts'
import { ALL_ROWS, CONCURRENCY, ROWS } from '../demo/sqs/scale.ts'
import { findings } from '../demo/sqs/verdict.ts'
import { effectOf, SummaryDatabase } from '../demo/summary.ts'
import { callProvider } from '../tools/provider.ts'
import { startSqs } from '../tools/sqs.ts'
import { freshDatabase } from './support/database.ts'
import { checkInterrupt, checkUsage, Demo } from './support/demo.ts'

const PROGRAM = 'demo/sqs/run.ts'
const INTERRUPTED = 2 * CONCURRENCY
const CALLS = `calls of the LLM: ${ALL_ROWS.length}, and ${INTERRUPTED} again for these rows`

test('duplicates, a kill and a stop: each row is billed once, no message is left, and nothing is left behind', async (t) => {
  const demo = new Demo(t, PROGRAM)
  assert.equal(await demo.ended, 0, demo.output)
  const isAsExpected = (what: string, expected: number) =>
    assert.deepEqual(demo.verdict(what), [expected, expected, '✓'], what)
  isAsExpected('rows completed', ALL_ROWS.length)
  isAsExpected('summaries billed by the LLM', ALL_ROWS.length)
  isAsExpected('rows billed twice or more', 0)
  isAsExpected('finished results overwritten', 0)
  isAsExpected('messages of the killed and the stopped, delivered again', INTERRUPTED)
  isAsExpected('their rows, taken back by recovery', INTERRUPTED)
  isAsExpected(CALLS, ALL_ROWS.length + INTERRUPTED)
  isAsExpected('calls made again that the LLM knew by their key', INTERRUPTED)
  isAsExpected('late commits of the stopped consumer, refused', CONCURRENCY)
  isAsExpected('early message: handed back until its row was there', 1)
  isAsExpected('lost message: sent by recovery', 1)
  isAsExpected('dead letters: the poison, with its reason', 1)
  isAsExpected('dead letters: any other', 0)
  isAsExpected('messages left in the queue', 0)
  assert.ok(!demo.output.includes('\x1b'), 'without a terminal there are no escape codes')
  for (const line of demo.output.split('\n')) assert.ok(line.length <= 100, line)
  await demo.untilGone()
})

test('without the claim and the key the demo fails', async (t) => {
  const demo = new Demo(t, PROGRAM, '--unguarded')
  assert.equal(await demo.ended, 1, demo.output)
  const [twice, , mark] = demo.verdict('rows billed twice or more') as [number, number, string]
  assert.equal(mark, '✗')
  // All but the one whose message was sent by recovery alone.
  assert.ok(twice >= ALL_ROWS.length - 1, `${twice}`)
  const [overwritten] = demo.verdict('finished results overwritten') as [number]
  assert.ok(overwritten >= ROWS.twice.length + ROWS.interrupted.length, `${overwritten}`)
  assert.deepEqual(demo.verdict('late commits of the stopped consumer, refused'), [0, CONCURRENCY, '✗'])
  // No rows to reclaim and no keys to check: neither right nor wrong.
  assert.deepEqual(demo.verdict('their rows, taken back by recovery'), [0, Number.NaN, '–'])
  assert.deepEqual(demo.verdict('calls made again that the LLM knew by their key'), [0, Number.NaN, '–'])
  assert.deepEqual(demo.verdict('early message: handed back until its row was there'), [0, 1, '✗'])
  await demo.untilGone()
})

test('Ctrl-C leaves nothing behind', (t) => checkInterrupt(t, PROGRAM, 'Act 1, duplicates'))

test('kill -9 leaves nothing behind either, not even the consumer that stands still', async (t) => {
  const demo = new Demo(t, PROGRAM)
  await demo.printed('SIGSTOP: consumer 3')
  demo.kill('SIGKILL')
  await demo.untilGone()
})

test('the demo prints its usage, and refuses unknown arguments', (t) => checkUsage(t, PROGRAM, 'demo:sqs'))

test('the verdict finds rows billed twice, overwritten, unfinished, and left in a queue', async (t) => {
  const { url } = await freshDatabase(t)
  const [database, sqs, llm] = [new SummaryDatabase(url), await startSqs(), await Llm.start()]
  t.after(() => Promise.all([database.close(), sqs.stop(), llm.stop()]))
  const queue = await Queue.create(sqs)
  await database.createTables()
  await database.addRows(ALL_ROWS)
  await database.pool.query(`update summary set status = 'completed', result = 'first' where id <> ${ROWS.lost}`)
  await database.pool.query(`update summary set result = 'second' where id = 1`)
  await callProvider(llm.url, effectOf(1))
  await callProvider(llm.url, effectOf(1))
  await callProvider(llm.url, effectOf(2), 'key')
  await callProvider(llm.url, effectOf(2), 'key')
  await queue.publish([1, 2])

  const crew = { settled: [], deliveredAgain: () => [] } as unknown as Crew
  await database.pool.query('create table incident (entity integer)')
  const told = { interrupted: [1, 2], late: [], guarded: { yielded: 0, evaluatedAnew: 0 } }
  const found = new Map(
    (await findings({ database, queue, llm, crew }, told)).map((finding) => [finding.what, finding.found]),
  )
  assert.equal(found.get('rows completed'), ALL_ROWS.length - 1)
  assert.equal(found.get('summaries billed by the LLM'), 3)
  assert.equal(found.get('rows billed twice or more'), 1)
  assert.equal(found.get('finished results overwritten'), 1)
  assert.equal(found.get(CALLS), 4)
  assert.equal(found.get('calls made again that the LLM knew by their key'), 1)
  assert.equal(found.get('lost message: sent by recovery'), 0)
  assert.equal(found.get('early message: handed back until its row was there'), 0)
  assert.equal(found.get('dead letters: the poison, with its reason'), 0)
  assert.equal(found.get('messages left in the queue'), 2)
})
