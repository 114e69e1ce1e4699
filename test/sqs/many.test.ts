import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { inTwoPhases } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { count } from '../support/worker.ts'
import { createSummaries, summaries } from '../tables/summaries.ts'
import { isEmpty, nextEvents, sqsScene } from './scene.ts'

const MANY = 1_000

test('a thousand slow handlers at once need no more than ten connections', async (t) => {
  const scene = await sqsScene(t)
  const { db, undo, queue, sendMany, consumer } = scene
  await createSummaries(db, MANY)
  const url = await queue()
  await sendMany(
    url,
    [...new Array(MANY).keys()].map((n) => ({ id: n + 1 })),
  )
  // A handler that held a connection while it works would make the others wait for ever.
  const pool = new pg.Pool({ connectionString: db.url, max: 10 })
  undo.after(() => pool.end())
  const all = gate()
  let inside = 0
  const busy = consumer<{ id: number }>({
    queueUrl: url,
    concurrency: MANY,
    handle: inTwoPhases(summaries, pool, {
      id: ({ body }) => body.id,
      effect: async () => {
        if (++inside === MANY) all.open()
        await all.opened
        return { result: 'done' }
      },
    }),
  })
  await nextEvents(busy, 'handled', MANY)
  assert.equal(await count(db, `from summary where status = 'completed' and attempt_count = 0`), MANY)
  assert.deepEqual([inside, busy.counts().received, busy.counts().redelivered], [MANY, MANY, 0])
  await isEmpty(scene, url)
})
