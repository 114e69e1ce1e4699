// The row is the truth, the message a hint: recovery re-publishes lost messages, and duplicates find the work done.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { withTransaction } from '../../src/index.ts'
import { SqsPublisher } from '../../src/sqs/publisher.ts'
import { freshDatabase } from '../support/database.ts'
import { failureOf } from '../support/effects.ts'
import { createSummaries, letClaimsAge, summaries, summary } from '../tables/summaries.ts'
import { queueBehindProxy } from './behind-proxy.ts'

async function scene(t: TestContext, rows: number, queue = 'summaries') {
  const db = await freshDatabase(t)
  await createSummaries(db, rows)
  const behind = await queueBehindProxy(t, { queue })
  const { client, queueUrl } = behind
  const publisher = new SqsPublisher(client, { queueUrl, body: (id) => ({ id }), attempts: 2 })
  const publish = (ids: readonly string[]) => publisher.publish(ids)
  const recovery = summaries.recovery({ publish, resendAfter: '30m' })
  /** As a worker does: the row decides, not the message. */
  const handleAll = async () => {
    const outcomes: string[] = []
    for (const id of await behind.drainIds()) {
      outcomes.push((await summaries.work(db.pool, id, async () => ({ result: `summary of ${id}` }))).outcome)
    }
    return outcomes
  }
  return { ...behind, db, publish, recovery, handleAll }
}

/** As if that much time had passed since their messages were sent. */
const letMessagesAge = (db: { pool: { query(text: string): Promise<unknown> } }) =>
  db.pool.query(`update summary set sent_at = sent_at - interval '31 min'`)

const NOTHING = { reclaimed: 0, givenUp: 0, redriven: 0, resent: 0 }

test('a producer commits its row, then publishes, and the row is handled', async (t) => {
  const { db, publish, handleAll } = await scene(t, 0)
  await withTransaction(db.pool, (tx) => tx.query('insert into summary (id) values (7)'))
  await publish(['7'])
  assert.deepEqual(await handleAll(), ['applied'])
  assert.deepEqual([(await summary(db, 7)).status, (await summary(db, 7)).result], ['completed', 'summary of 7'])
})

test('a row whose producer died between commit and publish is sent after resendAfter, and not before', async (t) => {
  const { db, recovery, handleAll } = await scene(t, 1)
  assert.deepEqual(await recovery.run(db.pool), NOTHING)
  assert.deepEqual(await handleAll(), [])
  await letMessagesAge(db)
  assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, resent: 1 })
  assert.deepEqual(await recovery.run(db.pool), NOTHING, 'its time begins anew')
  assert.deepEqual(await handleAll(), ['applied'])
  await letMessagesAge(db)
  assert.deepEqual(await recovery.run(db.pool), NOTHING, 'a finished row is not sent again')
})

for (const queue of ['summaries', 'summaries.fifo']) {
  test(`a row that failed, and one whose worker died, are sent and handled again: ${queue}`, async (t) => {
    const { db, publish, recovery, drainIds, handleAll } = await scene(t, 2, queue)
    await publish(['1', '2'])
    assert.deepEqual((await drainIds()).sort(), ['1', '2'])
    await summaries.work(db.pool, 1, async () => {
      throw new Error('on purpose')
    })
    await summaries.claim(db.pool, 2)
    await letClaimsAge(db)
    await db.pool.query('update summary set retry_at = statement_timestamp() where id = 1')
    assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, redriven: 1, reclaimed: 1 })
    assert.deepEqual(await handleAll(), ['applied', 'applied'])
    assert.equal((await summary(db, 1)).status, 'completed')
    assert.equal((await summary(db, 2)).status, 'completed')
  })
}

test('a message for a finished row changes nothing', async (t) => {
  const { db, publish, drainIds, handleAll } = await scene(t, 1)
  await publish(['1'])
  await publish(['1'])
  assert.deepEqual(await handleAll(), ['applied', 'already_handled'])
  await publish(['1'])
  assert.deepEqual(await drainIds(), ['1'])
  const again = await summaries.transition(db.pool, 1, 'pending', 'completed', { result: 'another' })
  assert.deepEqual(again, { outcome: 'already_handled', status: 'completed' })
  assert.equal((await summary(db, 1)).result, 'summary of 1')
})

test('recovery reports messages it could not send, and sends them after resendAfter', async (t) => {
  const { db, proxy, recovery, drainIds } = await scene(t, 3)
  await letMessagesAge(db)
  void proxy.fault({ fault: 'fail part', times: 2, entries: (entry) => entry.includes('\\"2\\"') })
  const error = await failureOf(recovery.run(db.pool))
  assert.equal(error.code, 'NOT_SENT')
  assert.deepEqual((await drainIds()).sort(), ['1', '3'])
  assert.deepEqual(await recovery.run(db.pool), NOTHING)
  await letMessagesAge(db)
  assert.deepEqual(await recovery.run(db.pool), { ...NOTHING, resent: 3 })
  assert.deepEqual((await drainIds()).sort(), ['1', '2', '3'])
})

test('ten recoveries at once send each row once, and so in the next turn', async (t) => {
  const { db, publish, drainIds } = await scene(t, 300)
  const recovery = summaries.recovery({ publish, resendAfter: '30m', batch: 7 })
  const all = Array.from({ length: 300 }, (_, index) => index + 1)
  for (let turn = 0; turn < 2; turn++) {
    await letMessagesAge(db)
    const dids = await Promise.all(Array.from({ length: 10 }, () => recovery.run(db.pool)))
    // A batch that was short because others held the rows is not the end: the remaining ones take the rest.
    dids.push(await recovery.run(db.pool))
    assert.equal(
      dids.reduce((sum, { resent }) => sum + resent!, 0),
      300,
    )
    assert.deepEqual(
      (await drainIds()).map(Number).sort((a, b) => a - b),
      all,
    )
  }
})
