// A FIFO queue grouped by entity, an evaluation that takes its time, and a write guard: the writer that comes second yields, and
// the next message of the group evaluates anew.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WriteGuard } from '../../src/tables/index.ts'
import { gate } from '../support/gate.ts'
import { createIncidents, openIncident, openIncidents, opening } from '../support/incidents.ts'
import { isEmpty, next, sqsScene } from './scene.ts'

test('a message that yields to another writer is deleted, and its group goes on', async (t) => {
  const scene = await sqsScene(t)
  const { db, log } = scene
  await createIncidents(db)
  const guard = new WriteGuard(db.pool)
  const url = await scene.queue({ fifo: true })
  const [evaluating, decided] = [gate(), gate()]
  const seenBy: [string, number][] = []
  const consumer = scene.consumer<{ name: string; entity: number }>({
    queueUrl: url,
    handle: async ({ body: { name, entity } }) => {
      const seen = await openIncidents(entity)(db.pool)
      seenBy.push([name, seen.length])
      if (name === 'first') {
        evaluating.open()
        await decided.opened // The model takes its time, and no lock and no connection is held.
      }
      if (seen.length > 0) return
      await guard.run({ ...opening(entity, name), seen })
    },
  })
  const [yielded, handled] = [next(consumer, 'concurrent_modification'), next(consumer, 'handled')]
  await scene.send(url, { name: 'first', entity: 7 }, { group: 'entity:7' })
  await scene.send(url, { name: 'second', entity: 7 }, { group: 'entity:7' })
  await evaluating.opened
  await openIncident(7, 'another service')(db.pool)
  decided.open()

  const { deleted, error } = await yielded
  assert.equal(deleted, true)
  assert.deepEqual((error as { site?: string }).site, 'open incident')
  assert.equal((await handled).deleted, true)
  assert.deepEqual(seenBy, [
    ['first', 0],
    ['second', 1],
  ])
  const { rows } = await db.pool.query('select opened_by from incident')
  assert.deepEqual(rows, [{ opened_by: 'another service' }])
  const { concurrent_modification, handled: done, returned } = consumer.counts()
  assert.deepEqual([concurrent_modification, done, returned], [1, 1, 0])
  assert.deepEqual(
    log.filter((entry) => entry.concurrentModification).map(({ level }) => level),
    ['warn'],
  )
  await isEmpty(scene, url)
})
