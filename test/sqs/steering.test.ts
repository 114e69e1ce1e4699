// The effect of a steering error on the row and on the message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cancel, Fatal, Snooze } from '../../src/index.ts'
import { type AnsweringHandle, inOneUpdate, inTwoPhases } from '../../src/sqs/index.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { next } from './scene.ts'
import { message, STANDARD, scripted } from './scripted.ts'

function ways({ pool }: TestDatabase, id: number, error: Error): readonly AnsweringHandle<unknown>[] {
  const throws = () => Promise.reject(error)
  return [
    inTwoPhases(summaries, pool, { id: () => id, effect: throws }),
    inOneUpdate(summaries, pool, { id: () => id, from: 'pending', to: 'completed', work: throws }),
  ]
}

test('Snooze: the message is redelivered after its delay, and the row is unchanged', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 1)
  for (const handle of ways(db, 1, new Snooze('90s'))) {
    const { start, did } = scripted([message('1')])
    const consumer = start(t, { queueUrl: STANDARD, handle: handle as never })
    const { reason, delayMs } = await next(consumer, 'returned')
    assert.deepEqual([reason, delayMs, did], ['requested', 90_000, ['1 in 90 s']])
    const { status, attempt_count, last_error } = await summary(db, 1)
    assert.deepEqual([status, attempt_count, last_error], ['pending', 0, null])
  }
})

test('Cancel and Fatal: recorded in the row without a retry, and the message is deleted; any other error is retried', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 6)
  let id = 0
  for (const error of [new Cancel('no longer wanted'), new Fatal('never'), new Error('later')]) {
    for (const way of [0, 1] as const) {
      const handle = ways(db, ++id, error)[way]!
      const answer = await handle({ signal: new AbortController().signal } as never)
      assert.deepEqual(answer, { outcome: 'failed', error, givenUp: error.name !== 'Error' })
      const { status, retry_at } = await summary(db, id)
      assert.deepEqual([status, retry_at === null], ['error', error.name !== 'Error'])
    }
  }
})
