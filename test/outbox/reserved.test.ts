// Names of queues and kinds that begin with outbox: belong to destinations.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kind, queue } from '../../src/index.ts'
import { freshDatabase } from '../support/database.ts'
import { codeOf } from '../support/worker.ts'
import { outboxScene } from './scene.ts'

test('a queue or kind of the name of a destination is refused where it is declared', async () => {
  for (const declare of [
    () => queue('outbox:billing'),
    () => kind('outbox:billing'),
    () => kind('outbox:billing', { queue: 'billing' }),
    () => kind('billing', { queue: 'outbox:billing' }),
  ])
    assert.equal(await codeOf(declare), 'INVALID_OPTION')
  assert.throws(() => kind('billing', { queue: 'outbox:billing' }), { option: 'kind("billing").queue' })
  assert.equal(kind('outbox', { queue: 'my outbox:billing' }).queue, 'my outbox:billing')
})

test('an enqueue from SQL into a queue of a destination is refused', async (t) => {
  const db = await freshDatabase(t)
  const enqueue = (name: string, options: object) =>
    codeOf(() => db.pool.query(`select leasehold.enqueue($1, '1', $2)`, [name, options]))
  const reserved = '42939'
  assert.equal(await enqueue('outbox:billing', {}), reserved)
  assert.equal(await enqueue('outbox:billing', { queue: 'billing' }), reserved)
  assert.equal(await enqueue('billing', { queue: 'outbox:billing' }), reserved)
  assert.equal(await enqueue('outbox', {}), 'nothing was thrown')
})

test('the queue of a destination can be paused and resumed by its name', async (t) => {
  const { lh, destination } = await outboxScene(t)
  const { queue: own } = await destination('billing')
  assert.equal(own.name, 'outbox:billing')
  await lh.pause({ queue: 'outbox:billing' })
  await lh.resume({ queue: 'outbox:billing' })
})
