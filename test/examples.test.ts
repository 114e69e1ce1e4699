// The examples are run as they are, each on a database of its own. What they import as `leasehold` is this repository's
// source (examples/tsconfig.json); test/package.test.ts compiles them against the package.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { environmentOf, startSqs } from '../tools/sqs.ts'
import { freshDatabase } from './support/database.ts'
import { until } from './support/until.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Example {
  /** Resolves when this was printed. */
  printed(text: string): Promise<void>
  kill(signal: NodeJS.Signals): void
  /** The printed lines, once it has ended with success. */
  readonly lines: Promise<string[]>
}

function start(t: TestContext, url: string, name: string, env: NodeJS.ProcessEnv = {}, flags: string[] = []): Example {
  const child = spawn(process.execPath, ['--import', 'tsx', ...flags, resolve(ROOT, 'examples', name)], {
    cwd: ROOT,
    env: { ...process.env, ...env, DATABASE_URL: url, TSX_TSCONFIG_PATH: `${ROOT}examples/tsconfig.json` },
  })
  t.after(() => child.kill('SIGKILL'))
  let output = ''
  let complaints = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    complaints += text
  })
  const ended = once(child, 'close').then(([code, signal]) => assert.equal(signal ?? code, 0, output + complaints))
  return {
    kill: (signal) => child.kill(signal),
    printed: async (text) => {
      while (!output.includes(text))
        await Promise.race([once(child.stdout, 'data'), ended.then(() => assert.fail(output))])
    },
    lines: ended.then(() => output.trimEnd().split('\n')),
  }
}

async function linesOf(t: TestContext, name: string): Promise<string[]> {
  const { url } = await freshDatabase(t)
  return start(t, url, name).lines
}

test('receipts: paid and enqueued in one commit, sent and completed in another', async (t) => {
  const { url, pool } = await freshDatabase(t)
  assert.deepEqual(await start(t, url, 'receipts/api.ts').lines, [
    'order 9182: created',
    'order 9182 again: existing',
    'order 9183: card declined',
    'jobs: receipt-9182 pending',
  ])
  const worker = start(t, url, 'receipts/worker.ts')
  await worker.printed('receipt sent for order 9182')
  worker.kill('SIGTERM')
  assert.deepEqual(await worker.lines, ['receipt sent for order 9182', 'stopped'])
  const { rows } = await pool.query('select order_id, status from receipt, leasehold.jobs')
  assert.deepEqual(rows, [{ order_id: 9182, status: 'completed' }])
})

test('sqs.ts: two rows are published and done, and nothing is left in the queue', async (t) => {
  const { url, pool } = await freshDatabase(t)
  const sqs = await startSqs()
  t.after(() => sqs.stop())
  const queueUrl = await sqs.createQueue('summaries')
  const example = start(t, url, 'sqs.ts', environmentOf(sqs))
  await Promise.all(['row 1 is done', 'row 2 is done'].map((line) => example.printed(line)))
  example.kill('SIGTERM')
  assert.equal((await example.lines).at(-1), 'stopped')
  const { rows } = await pool.query('select id, status, result from summary order by id')
  assert.deepEqual(rows, [
    { id: 1, status: 'completed', result: 'short' },
    { id: 2, status: 'completed', result: 'short' },
  ])
  assert.deepEqual(await sqs.depth(queueUrl), { visible: 0, inFlight: 0 })
})

test('ring: carts move to a second worker and back, and nothing stale is left in memory', async (t) => {
  assert.deepEqual(await linesOf(t, 'ring/run.ts'), [
    'the carts belong to first and second',
    'the carts belong to first',
    'cents in each cart: 30',
  ])
})

test('script.ts: enqueue, drain, and look at the result', async (t) => {
  const lines = await linesOf(t, 'script.ts')
  assert.equal(lines[0], '3 words: call me Ishmael', 'priority 0 is first')
  assert.deepEqual(lines.slice(-2), ['3 completed, 0 dead letters', 'completed { words: 6 }'])
})

test('serverless.ts: a batch an invocation, until nothing is left', async (t) => {
  assert.deepEqual(await linesOf(t, 'serverless.ts'), [
    'invocation 1: 10 completed',
    'invocation 2: 10 completed',
    'invocation 3: 5 completed',
    'invocation 4: 0 completed',
  ])
})

test('manual.ts: a failed attempt is retried, and a claim has one outcome', async (t) => {
  assert.deepEqual(await linesOf(t, 'manual.ts'), [
    'May, attempt 1: pending',
    'May, attempt 1, once more: LEASE_LOST',
    'June, attempt 1: completed',
    'June, attempt 1, once more: LEASE_LOST',
    'May, attempt 2: completed',
    'May, attempt 2, once more: LEASE_LOST',
    "{ month: 'June' } completed after 1",
    "{ month: 'May' } completed after 2",
  ])
})

test('zod.ts: a schema, errors that steer, events and a log', async (t) => {
  const lines = (await linesOf(t, 'zod.ts')).map((line) => line.trim())
  const expected = [
    'not enqueued: cents',
    "ada: completed { attempt: 1, charged: '19.99 EUR' }",
    'attempt 1 failed: the bank is busy',
    "bob: completed { attempt: 2, charged: '19.99 EUR' }",
    'snoozed for 50 ms',
    "cleo: completed { attempt: 1, charged: '19.99 EUR' }",
    'dead letter, fatal: the card was stolen',
    'log, charge: job 4 (charge) is a dead letter: fatal; see its last_error',
    'dan: dead_letter',
    'eve: cancelled',
    'attempt 1 failed: the bank is on fire',
    'attempt 2 failed: the bank is on fire',
    'dead letter, attempts_exhausted: the bank is on fire',
    'log, charge: job 6 (charge) is a dead letter: attempts_exhausted; see its last_error',
    'fay: dead_letter',
  ]
  // The outcome is in the database a moment before the worker emits its event, so the order of lines is not promised.
  assert.deepEqual(lines.sort(), expected.sort())
})

test('order: events of an order are applied in order, also when one fails', async (t) => {
  const lines = await linesOf(t, 'order.ts')
  const of = (order: number) => lines.filter((line) => line.includes(`${order}`))
  const events = (order: number) => ['paid', 'packed', 'shipped'].map((event) => `order ${order}: ${event}`)
  assert.deepEqual([of(9182), of(9183)], [events(9182), events(9183)])
})

test('batch.ts: a request for five jobs and one for three, with an outcome for each', async (t) => {
  const lines = (await linesOf(t, 'batch.ts')).filter((line) => !line.includes('dead letter:'))
  assert.deepEqual(lines, ['one request for 5 pages', 'one request for 3 pages', '7 completed, 1 dead letter'])
})

test('outbox.ts: events of a key reach two destinations in order, and what was rolled back reaches none', async (t) => {
  const lines = await linesOf(t, 'outbox.ts')
  const of = (name: string) => lines.filter((line) => line.startsWith(`${name}:`))
  const events = (name: string) => ['placed', 'paid', 'shipped'].map((status) => `${name}: order.${status}`)
  assert.equal(lines[0], 'not cancelled')
  assert.deepEqual([of('billing'), of('search')], [events('billing'), events('search')])
})

test('workflow: a worker is killed in the middle of the charge, and another one goes on', async (t) => {
  const { url, pool } = await freshDatabase(t)
  const linesOf = (name: string) => start(t, url, `workflow/${name}`).lines
  assert.deepEqual(await linesOf('place.ts'), ['run order-9182: created'])
  assert.deepEqual(await linesOf('place.ts'), ['run order-9182: existing'])
  const killed = start(t, url, 'workflow/worker.ts')
  killed.lines.catch(() => {}) // It is killed.
  await killed.printed('charge order 9182 …')
  killed.kill('SIGKILL')
  const worker = start(t, url, 'workflow/worker.ts')
  await worker.printed('charge order 9182: done')
  await until('it waits', async () => (await linesOf('show.ts')).at(-1) === 'waits for shipped')
  assert.deepEqual(await linesOf('ship.ts'), ['signal: sent'])
  await worker.printed('notify the customer of order 9182: done')
  worker.kill('SIGTERM')
  const printed = (await worker.lines).map((line) => line.replace(/ \(key \w+\)$/, ''))
  assert.deepEqual(printed.slice(1), [
    'charge order 9182 …',
    'charge order 9182: done',
    'notify the customer of order 9182 …',
    'notify the customer of order 9182: done',
  ])
  assert.deepEqual(await linesOf('show.ts'), [
    'step reserve: recorded',
    'step charge: recorded',
    'step book: recorded',
    'sleep sleep: waiting',
    'any late|shipped: recorded',
    'step notify: recorded',
    'completed shipped as parcel-9182',
  ])
  assert.equal((await pool.query('select from booking')).rowCount, 1)
})

test('workflow: the tests of the example pass', async (t) => {
  const { url } = await freshDatabase(t)
  // Without the variable by which Node knows a test inside of a test.
  const env = { TEST_DATABASE_URL: url, NODE_TEST_CONTEXT: undefined }
  const run = start(t, url, 'workflow/checkout.test.ts', env, ['--test', '--test-reporter=tap'])
  assert.match((await run.lines).join('\n'), /^# pass 3$/m)
})

for (const [how, server] of [
  ['on a server of yours', () => process.env.LEASEHOLD_TEST_URL],
  ['on embedded PostgreSQL', () => undefined],
] as const) {
  test(`testing: the tests for node:test pass ${how}`, async (t) => {
    const env = { TEST_DATABASE_URL: server(), NODE_TEST_CONTEXT: undefined }
    const run = start(t, '', 'testing/node.test.ts', env, ['--test', '--test-reporter=tap'])
    assert.match((await run.lines).join('\n'), /^# pass 4$/m)
  })
}
