// Bad options of the ring, and which line a job lies in, however it got there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bucketOf } from '../../src/core/bucket.ts'
import { handle, kind, queue } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { next, scene } from '../support/worker.ts'

const touch = kind<string>('touch', { backoff: { first: 1 }, maxAttempts: 2 })

test('bad options of the ring are refused, with what to write instead', async (t) => {
  const { lh } = await scene(t)
  const handlers = [handle(touch, () => {})]
  for (const weight of [0, 1e-50, -1, Number.NaN, 101, Number.POSITIVE_INFINITY, '1' as unknown as number])
    assert.throws(() => lh.worker(handlers, { weight }), { code: 'INVALID_OPTION', message: /from 0.01 to 100/ })
  for (const seat of [0, 1_025, 1.5, Number.NaN])
    assert.throws(() => lh.worker(handlers, { seat }), { code: 'INVALID_OPTION', message: /seat/ })
  for (const ring of ['x', 'Consistent', 1, null])
    assert.throws(() => queue('touch', { ring: ring as never }), { code: 'INVALID_OPTION', message: /ring/ })
  assert.throws(() => queue('touch', { ring: 'consistant' as never }), { message: /did you mean consistent/ })
})

test('a job keeps its line when it is retried, released or redriven, and SQL sets it', async (t) => {
  const { lh, db } = await scene(t)
  await lh.configure([queue('touch', { ring: true })])
  const { jobId } = await lh.enqueue(touch, 'x', { partitionKey: 'a' })
  const line = async () => (await db.pool.query('select line from leasehold.job where id = $1', [jobId])).rows[0].line
  const mine = 1 + bucketOf('a')
  assert.equal(await line(), mine)
  const claim = async () => {
    await db.clock.advance('1 min')
    return (await lh.claim(touch))[0]!
  }
  await (await claim()).release()
  assert.equal(await line(), mine)
  await (await claim()).fail(new Error('once'))
  assert.equal(await line(), mine)
  await (await claim()).snooze('1s')
  assert.equal(await line(), mine)
  await (await claim()).fail(new Error('twice'))
  assert.equal((await lh.redrive(jobId)).length, 1)
  assert.equal(await line(), mine)

  const { rows } = await db.pool.query(
    `select leasehold.enqueue('touch', '"y"', '{"partition_key": "b"}') as made, leasehold.enqueue('touch', '"z"') as plain`,
  )
  assert.equal(rows.length, 1)
  const lines = await db.pool.query('select partition_key as key, line from leasehold.job order by id')
  assert.deepEqual(lines.rows.slice(1), [
    { key: 'b', line: 1 + bucketOf('b') },
    { key: null, line: 0 },
  ])
})

test('the ring is switched on, to another strategy and off under load, and nothing is lost', async (t) => {
  const { lh, worker, log } = await scene(t)
  const keyed = kind<number>('keyed', { ordered: true })
  const ran = new Map<string, number[]>()
  const handler = handle(keyed, ({ input, partitionKey }) => {
    ran.set(partitionKey!, [...(ran.get(partitionKey!) ?? []), input])
  })
  await lh.configure([queue('keyed', { ordered: true })])
  const workers = ['a', 'b', 'c'].map((label) => worker([handler], { label, lease: '10s' }))
  const done = () => workers.reduce((sum, { tally }) => sum + tally.completed, 0)
  let n = 0
  for (const ring of [false, true, 'modulo', 'rendezvous', false, 'consistent', false] as const) {
    const add = async () => {
      n++
      await lh.enqueueMany(
        keyed,
        Array.from({ length: 30 }, (_, key) => ({ input: n, partitionKey: `k${key}` })),
      )
    }
    await add()
    await lh.configure([queue('keyed', { ordered: true, ring })])
    await add()
    await until('some are done', () => done() >= 30 * (n - 1))
  }
  await until('all are done', () => done() === 30 * n)
  const expected = Array.from({ length: n }, (_, i) => i + 1)
  for (const [key, numbers] of ran) assert.deepEqual(numbers, expected, key)
  assert.deepEqual(
    // A busy machine may be slow to connect, which is announced as well.
    log.filter(({ level, message }) => level !== 'info' && !/timeout expired|works again/.test(message)),
    [],
  )
})

test('jobs without a key, and those of queues beside the ring, go to any worker', async (t) => {
  const { lh, worker } = await scene(t)
  const [fair, plain] = [kind<string>('fair'), kind<string>('plain')]
  await lh.configure([queue('touch', { ring: true }), queue('fair', { fair: true, ring: true }), queue('plain')])
  const ran: string[] = []
  const note = ({ input }: { input: string }) => void ran.push(input)
  const made = worker([handle(touch, note), handle(fair, note), handle(plain, note)], { lease: '10s' })
  await next(made, 'gained', ({ queue }) => queue === 'fair')
  const stranger = worker([handle(touch, note), handle(fair, note), handle(plain, note)], { seat: 1, lease: '10s' })
  const problem = await next(stranger, 'problem')
  assert.equal((problem.error as { code?: string }).code, 'SEAT_TAKEN')
  await lh.enqueueMany(touch, [{ input: 'a', partitionKey: 'a' }, { input: 'b' }])
  await lh.enqueueMany(fair, [{ input: 'c', partitionKey: 'c' }])
  await lh.enqueueMany(plain, [{ input: 'd', partitionKey: 'd' }, { input: 'e' }])
  await until('all are done', () => ran.length === 5)
  assert.deepEqual(ran.sort(), ['a', 'b', 'c', 'd', 'e'])
  const gains = next(stranger, 'gained')
  await made.stop()
  assert.equal((await gains).buckets.length, 1_024)
  await lh.enqueueMany(touch, [{ input: 'f', partitionKey: 'f' }, { input: 'g' }])
  await until('all are done', () => ran.length === 7)
})
