// `leasehold/prometheus`, read by a strict parser.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, handle, kind } from '../../src/index.ts'
import { METRICS } from '../../src/telemetry/metrics.ts'
import { ProcessMetrics } from '../../src/telemetry/process-metrics.ts'
import { metricsHandler } from '../../src/telemetry/prometheus.ts'
import { MOST_QUEUES } from '../../src/telemetry/queue-depths.ts'
import type { Worker } from '../../src/worker/worker.ts'
import { movableTimers } from '../support/movable-clock.ts'
import { until } from '../support/until.ts'
import { count, inTime, next, type Scene, scene, statements } from '../support/worker.ts'
import { type ParsedFamily, parseMetrics } from './text-format.ts'

async function scrape(lh: Scene['lh'], handler = metricsHandler(lh)): Promise<Map<string, ParsedFamily>> {
  const response = await handler(new Request('http://localhost/metrics'))
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  return parseMetrics(await response.text())
}

function value(families: Map<string, ParsedFamily>, name: string, labels: Record<string, string> = {}, suffix = '') {
  const found = families
    .get(name)!
    .samples.filter(
      (sample) =>
        sample.name === name + suffix && Object.entries(labels).every(([label, of]) => sample.labels[label] === of),
    )
  assert.equal(found.length, 1, `${name} ${JSON.stringify(labels)}`)
  return found[0]!.value
}

test('every metric is there, with its type and help, also when nothing has happened', async (t) => {
  const { lh } = await scene(t)
  const families = await scrape(lh)
  assert.deepEqual(
    [...families].map(([name, { type, help }]) => [name, { type, help }]),
    Object.entries(METRICS),
  )
  assert.equal(value(families, 'leasehold_up'), 1)
})

test('queues are counted by state, with the age of the job that waits longest and their dead letters', async (t) => {
  const { lh, db } = await scene(t)
  const mail = kind<number>('mail', { maxAttempts: 1 })
  await lh.enqueueMany(mail, [{ input: 1 }, { input: 2, priority: 9 }, { input: 3, delay: '1h' }])
  await db.pool.query(`update leasehold.job set available_at = available_at - interval '90 s' where priority = 9`)
  const [claimed] = await lh.claim(mail, { limit: 1 })
  let families = await scrape(lh)
  for (const [state, jobs] of [
    ['ready', 1],
    ['scheduled', 1],
    ['processing', 1],
  ] as const) {
    assert.equal(value(families, 'leasehold_queue_jobs', { queue: 'mail', state }), jobs, state)
  }
  const oldest = value(families, 'leasehold_queue_oldest_seconds', { queue: 'mail' })
  assert.ok(oldest >= 90 && oldest < 1_000, String(oldest))
  await claimed!.bury(new Fatal('no'))
  await db.pool.query('update leasehold.job set crashes = 1')
  families = await scrape(lh)
  assert.equal(value(families, 'leasehold_queue_dead_letters', { queue: 'mail' }), 1)
  assert.equal(value(families, 'leasehold_queue_jobs', { queue: 'mail', state: 'ready' }), 1, 'suspects count')
})

test('hostile names of queues and kinds come back as they were', async (t) => {
  const { lh, worker } = await scene(t)
  const handler = metricsHandler(lh)
  const names = [
    'quote" } 1\nleasehold_up 7',
    'back\\slash\\n',
    '漢字 \u2028 \u0001\t\r',
    '{"a"}',
    '__proto__',
    "'; drop table job",
  ]
  const kinds = names.map((name) => kind<number>(name))
  const busy = worker(kinds.map((one) => handle(one, () => {})))
  for (const one of kinds) {
    const completed = next(busy, 'completed', (job) => job.kind === one.name)
    await lh.enqueue(one, 1)
    await completed
  }
  await lh.enqueueMany(
    kind('later'),
    names.map(() => ({ input: 1, delay: '1h' })),
  )
  for (const one of kinds) await lh.enqueue(one, 1, { delay: '1h' })
  const families = await scrape(lh, handler)
  for (const name of names) {
    assert.equal(value(families, 'leasehold_queue_jobs', { queue: name, state: 'scheduled' }), 1, name)
    assert.equal(value(families, 'leasehold_job_outcomes_total', { queue: name, kind: name, outcome: 'completed' }), 1)
    assert.equal(value(families, 'leasehold_handler_seconds', { kind: name }, '_count'), 1)
  }
  assert.equal(value(families, 'leasehold_up'), 1)
})

test('outcomes are counted by kind, and workers that started before the handler was made as well', async (t) => {
  const { lh, worker } = await scene(t)
  const mail = kind<number>('mail', { maxAttempts: 2, backoff: { first: 1, max: 1 } })
  const busy = worker([handle(mail, ({ input }) => assert.ok(input > 0))], { poll: 20 })
  const completed = next(busy, 'completed')
  await lh.enqueue(mail, 1)
  await completed
  const handler = metricsHandler(lh)
  const buried = next(busy, 'dead_letter')
  await lh.enqueue(mail, 0)
  await buried
  const families = await scrape(lh, handler)
  const outcome = (name: string) => value(families, 'leasehold_job_outcomes_total', { kind: 'mail', outcome: name })
  assert.deepEqual(['completed', 'retrying', 'dead_letter'].map(outcome), [0, 1, 1])
  assert.equal(value(families, 'leasehold_start_delay_seconds', { kind: 'mail' }, '_count'), 2)
  assert.equal(value(families, 'leasehold_workers', { state: 'active' }), 1)
  assert.equal(value(families, 'leasehold_jobs_running'), 0)
})

test('a kind is counted from 0, so that its first dead letter is an increase', async (t) => {
  const { lh, worker } = await scene(t)
  const handler = metricsHandler(lh)
  const up = next(worker([handle(kind('mail', { queue: 'shared' }), () => {})]), 'wakeup')
  await up
  const families = await scrape(lh, handler)
  const labels = { queue: 'shared', kind: 'mail', outcome: 'dead_letter' }
  assert.equal(value(families, 'leasehold_job_outcomes_total', labels), 0)
})

test('a second scrape within 5 s costs the database nothing', async (t) => {
  const { lh, undo } = await scene(t)
  const handler = metricsHandler(lh)
  await scrape(lh, handler)
  const sent = statements(undo)
  await Promise.all([scrape(lh, handler), scrape(lh, handler)])
  assert.deepEqual(
    sent.filter((name) => name.startsWith('telemetry.')),
    [],
  )
})

test('queues and kinds beyond the limit add no labels', async (t) => {
  const { lh, db } = await scene(t)
  await db.pool.query(`select leasehold.enqueue('k' || n, '{}') from generate_series(1, $1) n`, [MOST_QUEUES + 5])
  const families = await scrape(lh)
  assert.equal(families.get('leasehold_queue_oldest_seconds')!.samples.length, MOST_QUEUES)

  const metrics = new ProcessMetrics()
  const listeners = new Map<string, (job: object) => void>()
  metrics.watch({
    kinds: [],
    on: (name: string, listener: never) => listeners.set(name, listener),
  } as unknown as Worker)
  for (let n = 0; n < 600; n++) listeners.get('completed')!({ queue: 'q', kind: `k${n}`, waitMs: 1, durationMs: 1 })
  assert.equal(metrics.kinds.length, 501)
  assert.equal(metrics.kinds.at(-1)!.outcomes.completed, 100)
})

test('a database that is away leaves the counts of the process, and up is 0', async (t) => {
  const { leasehold } = await scene(t)
  const families = await scrape(leasehold({ connectionString: 'postgres://127.0.0.1:1/x' }))
  assert.equal(value(families, 'leasehold_up'), 0)
  assert.equal(value(families, 'leasehold_jobs_running'), 0)
  assert.deepEqual(families.get('leasehold_queue_jobs')!.samples, [])
})

test('a scrape waits 5 s for the database, however many statements it sends', async (t) => {
  const { lh, db, undo } = await scene(t)
  const [first, second] = [await db.connect(), await db.connect()]
  await first.query('begin; lock leasehold.dead_letter')
  await second.query('begin; lock leasehold.worker')
  undo.after(() => Promise.all([first.query('rollback'), second.query('rollback')]))
  const waits = (relation: string) =>
    until(`the scrape waits for ${relation}`, () =>
      count(db, `from pg_locks where not granted and relation = 'leasehold.${relation}'::regclass`).then((n) => n > 0),
    )
  const clock = movableTimers(t, { runByThemselves: false, stands: true })
  const scraped = inTime(scrape(lh), 'no answer')
  await waits('dead_letter')
  clock.pass(4_000)
  await first.query('rollback')
  await waits('worker')
  clock.pass(1_000)
  assert.equal(value(await scraped, 'leasehold_up'), 0)
})

test('only GET and HEAD are answered', async (t) => {
  const { lh } = await scene(t)
  const handler = metricsHandler(lh)
  const refused = await handler(new Request('http://localhost/metrics', { method: 'POST', body: 'x' }))
  assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD'])
  const head = await handler(new Request('http://localhost/metrics', { method: 'HEAD' }))
  assert.deepEqual([head.status, await head.text()], [200, ''])
  assert.throws(() => metricsHandler({} as never), { code: 'INVALID_OPTION' })
})
