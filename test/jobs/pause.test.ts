// What pause and resume store, return and leave in the record of operator actions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { kind, queue } from '../../src/index.ts'
import { type PauseTarget, pause, pausedBy, pausedNow, resume } from '../../src/jobs/pause.ts'
import { type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { claimNext, session } from '../support/queue.ts'
import { codeOf, scene } from '../support/worker.ts'

const mail = kind<number>('mail')

async function actions({ pool }: Pick<TestDatabase, 'pool'>): Promise<unknown[]> {
  const { rows } = await pool.query('select * from leasehold.operator_actions order by id')
  return rows.map(({ action, by, outcome, queue, kind, job_id: jobId }) => [action, by, outcome, queue, kind, jobId])
}

for (const [what, target] of [
  ['a queue', { queue: 'mail' }],
  ['a queue by its declaration', { queue: queue('mail') }],
  ['a kind', { kind: 'mail' }],
  ['a kind by its declaration', { kind: mail }],
] satisfies [string, PauseTarget][]) {
  test(`${what} is paused once and resumed once, and each call leaves its row`, async (t) => {
    const { lh, db } = await scene(t)
    const { jobId } = await lh.enqueue(mail, 1)
    const lane = new Lane(db.pool)
    assert.equal(await lh.pause(target, { by: 'ada' }), 'paused')
    assert.equal(await lh.pause(target, { by: 'bob' }), 'already_paused')
    const of = what.includes('queue') ? 'queue' : 'kind'
    const { rows } = await db.pool.query('select queue, kind, by from leasehold.pause')
    assert.deepEqual(rows, [{ queue: null, kind: null, by: 'ada', [of]: 'mail' }])
    const named = { queues: new Set(of === 'queue' ? ['mail'] : []), kinds: new Set(of === 'kind' ? ['mail'] : []) }
    assert.deepEqual(await pausedNow(lane), named)
    assert.deepEqual(pausedBy(`${of}:mail`), named)
    assert.equal((await lh.get(jobId))?.label, 'paused')
    assert.deepEqual(await lh.claim(mail), [])

    assert.equal(await lh.resume(target, { by: 'bob' }), 'resumed')
    assert.equal(await lh.resume(target), 'not_paused')
    assert.deepEqual(await pausedNow(lane), { queues: new Set(), kinds: new Set() })
    assert.equal((await lh.get(jobId))?.label, 'ready')
    const names = of === 'queue' ? ['mail', null, null] : [null, 'mail', null]
    assert.deepEqual(await actions(db), [
      ['pause', 'ada', 'paused', ...names],
      ['pause', 'bob', 'already_paused', ...names],
      ['resume', 'bob', 'resumed', ...names],
      ['resume', null, 'not_paused', ...names],
    ])
  })
}

test('the label of a ready job is paused; other jobs keep their own label', async (t) => {
  const { lh } = await scene(t)
  const other = kind<number>('other')
  const ready = await lh.enqueue(mail, 1)
  const [running] = await lh.claim(mail)
  const scheduled = await lh.enqueue(mail, 1, { delay: '1h' })
  const waiting = await lh.enqueue(mail, 1)
  const elsewhere = await lh.enqueue(other, 1)
  await lh.pause({ queue: 'mail' })
  const labels = [ready, scheduled, waiting, elsewhere].map(async ({ jobId }) => (await lh.get(jobId))!.label)
  assert.deepEqual(await Promise.all(labels), [null, 'scheduled', 'paused', 'ready'])
  await running!.fail('no')
  assert.equal((await lh.get(ready.jobId))?.label, 'retrying')
})

test('of two operators that pause at once, one gets paused', async (t) => {
  const { db } = await scene(t)
  const [first, second] = [await session(db), await session(db)]
  await first.client.query('begin')
  assert.equal(await pause(first.lane, { queue: 'mail' }, { by: 'ada' }), 'paused')
  const later = pause(second.lane, { queue: 'mail' }, { by: 'bob' })
  await waitUntilBlocked(await db.connect(), second.pid)
  await first.client.query('commit')
  assert.equal(await later, 'already_paused')
  assert.deepEqual((await db.pool.query('select by from leasehold.pause')).rows, [{ by: 'ada' }])
})

test('a pause that has not committed holds up no claim', async (t) => {
  const { lh, db } = await scene(t)
  await lh.enqueue(mail, 1)
  const operator = await session(db)
  await operator.client.query('begin')
  await pause(operator.lane, { queue: 'mail' })
  await pause(operator.lane, { kind: mail })
  assert.equal((await claimNext(new Lane(db.pool))).length, 1)
  await operator.client.query('commit')
})

test('a pause target with no name, or two, is refused', async (t) => {
  const { lh } = await scene(t)
  const targets: unknown[] = [undefined, null, {}, 'mail', { queue: 'a', kind: 'b' }, { queue: '' }, { kind: 7 }]
  for (const target of [...targets, { kind: { queue: 'a' } }, { queue: null }, { queues: 'mail' }]) {
    assert.equal(await codeOf(() => lh.pause(target as PauseTarget)), 'INVALID_OPTION', JSON.stringify(target))
    assert.equal(await codeOf(() => lh.resume(target as PauseTarget)), 'INVALID_OPTION', JSON.stringify(target))
  }
  assert.equal(await codeOf(() => lh.pause({ queue: 'a' }, { by: '' })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.resume({ queue: 'a' }, { who: 'ada' } as object)), 'INVALID_OPTION')
})

test('names with colons, quotes and spaces are paused and resumed like any other', async (t) => {
  const { lh, db } = await scene(t)
  const lane = new Lane(db.pool)
  for (const name of ['a:b', 'kind:x', 'queue:"x"', ' {ä, b} ']) {
    await lh.pause({ queue: name })
    assert.deepEqual([...(await pausedNow(lane)).queues], [name])
    assert.deepEqual([...pausedBy(`queue:${name}`).queues], [name])
    assert.deepEqual([...pausedBy(`queue:${name}`).kinds], [])
    assert.equal(await resume(lane, { queue: name }), 'resumed')
  }
})
