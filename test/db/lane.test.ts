import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { suiteDatabase } from '../support/database.ts'
import { claimNext, completeAll, enqueueMany, newWorker } from '../support/queue.ts'

const db = await suiteDatabase()

for (const prepare of [true, false]) {
  test(`the same work is done by ${prepare ? 'named' : 'unnamed'} statements`, async () => {
    const client = await db.connect()
    const lane = new Lane(client, { prepare })
    const worker = newWorker()
    const queue = `prepare ${prepare}`
    await enqueueMany(lane, 2, { queue })
    const [first, second] = await claimNext(lane, { queues: [queue], kinds: ['mail'], limit: 2, worker })
    assert.deepEqual(await completeAll(lane, worker, [first!]), { refused: [], busy: [] })
    const [settled] = await settle(lane, worker, [{ ...second!, verb: 'release' }])
    assert.equal(settled?.outcome, 'pending')
    const { rows } = await client.query('select name from pg_prepared_statements order by name')
    const names = rows.map((row) => row.name)
    assert.deepEqual(
      names,
      prepare ? ['claim', 'complete', 'enqueue_alike', 'settle'].map((name) => `leasehold/job.${name}`) : [],
    )
  })
}

test('a statement without a name is refused', async () => {
  await assert.rejects(new Lane(db.pool).run('select 1', []), /starts with its name/)
})
