import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inTwoPhases, SqsPublisher } from '../../src/sqs/index.ts'
import { statusTable } from '../../src/tables/index.ts'
import { gate } from '../support/gate.ts'
import { createSummaries, letClaimsAge } from '../tables/summaries.ts'
import { isEmpty, next, sqsScene } from './scene.ts'

test('the recovery beside the consumer publishes a row whose message was never sent', async (t) => {
  const scene = await sqsScene(t)
  const { db, sqs, queue, consumer } = scene
  await createSummaries(db, 1)
  await db.pool.query(`update summary set sent_at = now() - interval '1 hour'`)
  const url = await queue()
  const publisher = new SqsPublisher(sqs.client, { queueUrl: url, body: (id) => ({ id: Number(id) }) })
  const summaries = statusTable('summary', { columns: ['result'] })
  const busy = consumer<{ id: number }>({
    queueUrl: url,
    handle: inTwoPhases(summaries, db.pool, { id: ({ body }) => body.id, effect: async () => ({ result: 'done' }) }),
    chores: [summaries.recovery({ publish: (ids) => publisher.publish(ids), every: '100ms' })],
    pool: db.pool,
  })
  const [done, { rowId }] = await Promise.all([next(busy, 'chore'), next(busy, 'handled')])
  assert.deepEqual(done, {
    name: 'recovery of summary',
    counts: { reclaimed: 0, givenUp: 0, redriven: 0, resent: 1 },
  })
  assert.equal(rowId, '1')
  await isEmpty(scene, url)
})

test('a chore that throws is a problem and runs again, and a running one is aborted when the consumer stops', async (t) => {
  const scene = await sqsScene(t)
  const started = gate()
  let runs = 0
  let wasTold = false
  const busy = scene.consumer({
    queueUrl: await scene.queue(),
    handle: () => {},
    pool: scene.db.pool,
    chores: [
      {
        name: 'sweeping',
        every: '100ms',
        run: (_, signal) => {
          if (++runs === 1) throw new Error('no broom')
          started.open()
          return new Promise((resolve) => {
            signal!.addEventListener('abort', () => {
              wasTold = true
              resolve({})
            })
          })
        },
      },
    ],
  })
  const { doing } = await next(busy, 'problem')
  await started.opened
  await busy.stop()
  assert.deepEqual([doing, runs, wasTold], ['sweeping', 2, true])
  assert.match(scene.log[0]!.message, /^SQS queue \S+: trouble with the chore "sweeping"$/)
})

test('rows that recovery gives up on are logged as a warning', async (t) => {
  const scene = await sqsScene(t)
  const { db, queue, consumer } = scene
  await createSummaries(db, 1)
  const summaries = statusTable('summary', { columns: ['result'], maxAttempts: 1 })
  await summaries.claim(db.pool, 1)
  await letClaimsAge(db)
  const busy = consumer({
    queueUrl: await queue(),
    handle: () => {},
    chores: [summaries.recovery({ publish: async () => {}, every: '100ms' })],
    pool: db.pool,
  })
  assert.equal((await next(busy, 'chore')).counts.givenUp, 1)
  assert.match(scene.log[0]!.message, /the chore "recovery of summary" found 1 row that has exhausted its attempts$/)
})
