// The standby that failover tests promote: what it receives, what it loses, and that nothing remains of it.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { startPostgres } from '../../tools/postgres.ts'
import { PRIMARY, startStandby } from '../../tools/standby.ts'
import { until } from '../support/until.ts'

const options = { settings: { fsync: 'off', ...PRIMARY } }

async function connected(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  t.after(() => client.end())
  return client
}

async function numbers(client: pg.Client): Promise<number[]> {
  return (await client.query('select n from number order by n')).rows.map(({ n }) => n)
}

test('a promoted standby has the replicated commits, and none from while replication was frozen', async (t) => {
  const primary = await startPostgres(options)
  t.after(() => primary.stop())
  const [writer, other] = [await connected(t, primary.url), await connected(t, primary.url)]
  await writer.query('create table number (n int); insert into number values (1)')
  const standby = await startStandby(primary, options)
  t.after(() => standby.stop())
  const reader = await connected(t, standby.url)
  await until('the copy is replayed', async () => (await numbers(reader)).length === 1)
  await assert.rejects(reader.query('insert into number values (0)'), { code: '25006' })

  await other.query('insert into number values (2)')
  await until('the stream is replayed', async () => (await numbers(reader)).length === 2)
  standby.replication.freeze()
  await writer.query('insert into number values (3)')
  assert.deepEqual(await numbers(other), [1, 2, 3])
  await primary.crash()
  await assert.rejects(writer.query('select'))
  await standby.promote()
  await reader.query('insert into number values (4)')
  assert.deepEqual(await numbers(reader), [1, 2, 4])

  await Promise.all([standby.stop(), primary.stop()])
  for (const { directory } of [primary, standby]) assert.equal(existsSync(directory), false)
})
