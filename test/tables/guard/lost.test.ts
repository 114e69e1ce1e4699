// A process that is killed, a connection that is lost, a reply that never comes.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { ConcurrentModificationError, WriteGuard } from '../../../src/tables/index.ts'
import { startFaultyProxy } from '../../../tools/faulty-proxy.ts'
import { suiteDatabase, waitUntilBlocked } from '../../support/database.ts'
import { advisoryLocks, createIncidents, openIncidents, opening, pidOf } from '../../support/incidents.ts'
import { until } from '../../support/until.ts'
import { codeOf, inTime } from '../../support/worker.ts'

const HOLDER = fileURLToPath(new URL('programs/holder.ts', import.meta.url))
const db = await suiteDatabase()
await createIncidents(db)

test('a process killed while it holds the lock: the lock is gone, its write too, and the next one writes', async (t) => {
  const entity = 1
  const child = fork(HOLDER, {
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, LEASEHOLD_TEST_HOLDER: JSON.stringify({ url: db.url, entity }) },
  })
  const ended = once(child, 'exit')
  t.after(() => child.kill('SIGKILL'))
  await Promise.race([once(child, 'message'), ended.then(([code]) => assert.fail(`it ended with ${code}`))])
  const next = await db.connect()
  await next.query('begin')
  const waiting = new WriteGuard(db.pool, { lockTimeout: '1m' }).run({ ...opening(entity), seen: [], tx: next })
  await waitUntilBlocked(await db.connect(), pidOf(next))
  child.kill('SIGKILL')
  await ended
  const id = await inTime(waiting, 'the lock')
  await next.query('commit')
  assert.deepEqual(await openIncidents(entity)(db.pool), [id])
})

test('a connection lost during the write: nothing was written, and the guard goes on with another', async () => {
  const entity = 2
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  try {
    const guard = new WriteGuard(pool)
    const { write, ...rest } = opening(entity)
    const attempt = guard.run({
      ...rest,
      seen: [],
      write: async (tx) => {
        await write(tx)
        const lost = new Promise((resolve) => tx.once('end', resolve))
        await db.pool.query('select pg_terminate_backend($1)', [pidOf(tx)])
        await lost
      },
    })
    await assert.rejects(attempt)
    assert.deepEqual(guard.counts(), {})
    await until('the lock is gone', async () => (await advisoryLocks(db)) === 0)
    assert.deepEqual(await openIncidents(entity)(db.pool), [])
    await guard.run({ ...opening(entity), seen: [] })
  } finally {
    await pool.end()
  }
})

test('a commit whose reply is lost: the caller gets the error, and a retry does not write twice', async () => {
  const entity = 3
  const { hostname, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  const pool = new pg.Pool({ connectionString: proxy.url(db.url) })
  try {
    const guard = new WriteGuard(pool)
    const seen = await openIncidents(entity)(pool)
    // The message of that one statement: "begin isolation level read committed" has the word, too.
    const cut = proxy.cutReplies(/Q[\s\S]{4}commit\0/)
    const code = await codeOf(() => guard.run({ ...opening(entity), seen }))
    assert.notEqual(code, 'nothing was thrown')
    assert.notEqual(code, 'CONCURRENT_MODIFICATION')
    await inTime(cut, 'the reply was cut')
    assert.equal((await openIncidents(entity)(db.pool)).length, 1)
    await assert.rejects(guard.run({ ...opening(entity), seen }), ConcurrentModificationError)
    assert.equal((await openIncidents(entity)(db.pool)).length, 1)
  } finally {
    await pool.end()
    await proxy.stop()
  }
})
