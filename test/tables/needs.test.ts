// The output of sql(): run on a new table, on one that existed before, and on one that has the columns already.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshDatabase } from '../support/database.ts'
import { createSummaries, letClaimsAge, summaries, summary } from './summaries.ts'

const NOTHING = { reclaimed: 0, givenUp: 0, redriven: 0, resent: 0 }

test('sql() prepares a table that is already in use', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query(`
    create table summary (id integer primary key, status text, result text, completed_at timestamptz,
      attempt_count integer, sent_at timestamptz);
    insert into summary values (1, 'processing'), (2, 'pending'), (3, 'error')`)
  await db.pool.query(summaries.sql())
  assert.deepEqual(await summaries.recovery({ resendAfter: '1h' }).run(db.pool), NOTHING)
  await letClaimsAge(db)
  await db.pool.query(`update summary set sent_at = now() - interval '2 h'`)
  const did = await summaries.recovery({ resendAfter: '1h' }).run(db.pool)
  assert.deepEqual(did, { ...NOTHING, reclaimed: 1, resent: 1 })
  assert.deepEqual(await summaries.fail(db.pool, 2, new Error('on purpose')), { outcome: 'applied', givenUp: false })
  assert.ok((await summary(db, 2)).retry_at! > new Date())
})

test('sql() is sufficient, its constraints refuse impossible rows, and its indexes are used', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 20_000)
  await db.pool.query('analyze summary')
  await assert.rejects(db.pool.query(`update summary set status = 'procesing' where id = 1`), { code: '23514' })
  await assert.rejects(db.pool.query(`update summary set status = 'processing' where id = 1`), { code: '23514' })
  const sent: { text: string; values: unknown[] }[] = []
  const spy = {
    ...db.pool,
    totalCount: 0,
    connect: async () => {
      const client = await db.pool.connect()
      const { query } = client
      client.query = ((config: { text: string; values: unknown[] }) => {
        if (typeof config === 'object') sent.push(config)
        return (query as (config: unknown) => unknown).call(client, config)
      }) as typeof query
      client.once('end', () => {})
      const release = client.release.bind(client)
      client.release = (error) => {
        client.query = query
        client.release = release
        release(error)
      }
      return client
    },
  }
  await summaries.recovery({ resendAfter: '10m' }).run(spy as unknown as typeof db.pool)
  assert.equal(sent.length, 4)
  for (const { text, values } of sent) {
    const { rows } = await db.pool.query({ text: `explain ${text}`, values })
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    assert.match(plan, /Index Scan using summary_(stuck|to_retry|to_resend)/)
    assert.doesNotMatch(plan, /Seq Scan/)
  }
})
