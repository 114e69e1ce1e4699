// leasehold/testing: a process that dies at its nth statement.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidOptionError } from '../../src/index.ts'
import { killAt, testClock } from '../../src/testing/index.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { freshDatabase } from '../support/database.ts'
import { scene } from '../support/worker.ts'

test('the nth statement is not sent, and no connection works any more', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query('create table note (n integer)')
  const kill = killAt(3)
  const pool = kill.pool({ connectionString: db.url })
  const insert = (n: number) => pool.query('insert into note values ($1)', [n])
  await insert(1)
  await pool.query('insert into note values (2)')
  await assert.rejects(insert(3), /killAt\(\) has cut|Connection terminated/)
  await kill.died
  await assert.rejects(insert(4), /killAt\(\) has cut|Connection terminated/)
  assert.deepEqual([kill.isDead, kill.statements], [true, 3])
  assert.deepEqual((await db.pool.query('select n from note order by n')).rows, [{ n: 1 }, { n: 2 }])
})

test('with `after` the nth statement is carried out, and its reply is lost', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query('create table note (n integer)')
  const kill = killAt(2, { when: 'after' })
  const pool = kill.pool({ connectionString: db.url })
  const insert = (n: number) => pool.query('insert into note values ($1)', [n])
  await insert(1)
  await assert.rejects(insert(2), /killAt\(\) has cut|Connection terminated/)
  await assert.rejects(insert(3), /killAt\(\) has cut|Connection terminated/)
  assert.deepEqual((await db.pool.query('select n from note order by n')).rows, [{ n: 1 }, { n: 2 }])
})

test('what is open in a transaction is rolled back', async (t) => {
  const db = await freshDatabase(t)
  await db.pool.query('create table note (n integer)')
  const client = await killAt(3).pool({ connectionString: db.url }).connect()
  client.on('error', () => {})
  await client.query('begin')
  await client.query('insert into note values (1)')
  await assert.rejects(client.query('commit'))
  client.release(true)
  await db.pool.query('alter table note add column m integer') // Waits for the transaction, if it is still open.
  assert.equal((await db.pool.query('select from note')).rowCount, 0)
})

test('wrong arguments are refused', () => {
  for (const n of [0, 1.5, Number.NaN]) assert.throws(() => killAt(n), InvalidOptionError)
  assert.throws(() => killAt(1, { when: 'later' as 'after' }), InvalidOptionError)
  assert.throws(() => killAt(1).pool({ ssl: true }), InvalidOptionError)
  for (const query of ['sslmode=no-verify', 'sslmode=verify-full', 'ssl=true']) {
    const connectionString = `postgres://user@localhost/database?${query}`
    assert.throws(() => killAt(1).pool({ connectionString }), InvalidOptionError, query)
  }
  killAt(1).pool({ connectionString: 'postgres://user@localhost/database?sslmode=disable' })
})

test('killed at each of its statements, a run has one result and one effect in the database', async (t) => {
  const { lh, db } = await scene(t)
  const clock = await testClock(lh)
  await db.pool.query('create table paid (run text)')
  const steps: string[] = []
  const flow = workflow<null, string>('flow', {}, async (run) => {
    const one = await run.step('one', () => {
      steps.push(run.id)
      return 'one'
    })
    await run.tx('pay', (tx) => tx.query('insert into paid values ($1)', [run.id]).then(() => undefined))
    await run.sleep('1h')
    return `${one} ${await run.step('two', () => 'two')}`
  })
  let kills = 0
  for (let n = 1, isOver = false; !isOver; n++) {
    const run = await start(lh, flow, null, { runId: `run ${n}` })
    const kill = killAt(n, { when: n % 2 === 0 ? 'after' : 'before' })
    const { status, result } = await clock.runToEnd([handleRuns(flow)], run, { kill })
    assert.deepEqual([status, result], ['completed', 'one two'], `killed at ${n}`)
    const tries = steps.filter((id) => id === run.runId).length
    assert.ok(tries === 1 || tries === 2, `killed at ${n}: ${tries} times`)
    if (kill.isDead) kills++
    else isOver = true
  }
  const { rows } = await db.pool.query('select count(*)::int as all, count(distinct run)::int as runs from paid')
  assert.deepEqual(rows[0], { all: kills + 1, runs: kills + 1 })
  assert.ok(kills > 12, `${kills} statements`)
})
