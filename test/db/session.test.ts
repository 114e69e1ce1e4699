import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Connection } from '../../src/db/connection.ts'
import { maybeSent, Session } from '../../src/db/session.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { suiteDatabase } from '../support/database.ts'
import { movableTimers } from '../support/movable-clock.ts'

const db = await suiteDatabase()

async function behindProxy(t: Parameters<NonNullable<Parameters<typeof test>[0]>>[0], deadlineMs: number) {
  const { hostname, port } = new URL(db.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  const { client } = new Connection({ connectionString: proxy.url(db.url) })
  const session = new Session({ connection: client, deadlineMs })
  t.after(async () => {
    session.abandon()
    await proxy.stop()
  })
  const ask = (text = 'select 1') => session.query({ text, rowMode: 'array' })
  return { proxy, session, ask }
}

test('opening a connection is part of the deadline, and after it nothing was sent', async (t) => {
  const { proxy, ask } = await behindProxy(t, 100)
  proxy.freeze()
  await assert.rejects(ask(), (error) => !maybeSent(error))
})

test('a statement on a half-open socket misses its deadline, and the next one has a new connection', async (t) => {
  const clock = movableTimers(t)
  const { proxy, ask } = await behindProxy(t, 60_000)
  const pid = 'select pg_backend_pid()'
  const before = (await ask(pid)).rows
  proxy.freeze()
  const late = ask()
  await new Promise((resolve) => setImmediate(resolve))
  clock.pass(60_000)
  await assert.rejects(late, (error: { code?: unknown }) => error.code === 'DEADLINE' && maybeSent(error))
  proxy.thaw()
  assert.notDeepEqual((await ask(pid)).rows, before)
})

test('a connection stays usable after a refused statement', async (t) => {
  const { ask } = await behindProxy(t, 60_000)
  const pid = 'select pg_backend_pid()'
  const before = (await ask(pid)).rows
  await assert.rejects(ask('select 1 / 0'), { code: '22012' })
  assert.deepEqual((await ask(pid)).rows, before)
})

test('an abandoned session rejects statements in flight and later ones', async (t) => {
  const { proxy, session, ask } = await behindProxy(t, 60_000)
  await ask()
  proxy.freeze()
  const [underWay, queued] = [ask(), ask()]
  const both = Promise.allSettled([underWay, queued])
  await new Promise((resolve) => setImmediate(resolve))
  session.abandon()
  assert.deepEqual(
    (await both).map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  await assert.rejects(ask(), { code: 'DEADLINE' })
})
