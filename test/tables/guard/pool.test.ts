// An evaluation holds no connection, so there may be any number of them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { WriteGuard } from '../../../src/tables/index.ts'
import { suiteDatabase } from '../../support/database.ts'
import { gate } from '../../support/gate.ts'
import { createIncidents, openIncidents, opening } from '../../support/incidents.ts'
import { until } from '../../support/until.ts'
import { inTime } from '../../support/worker.ts'

const db = await suiteDatabase()
await createIncidents(db)
const EVALUATIONS = 100
const CONNECTIONS = 5

test(`${EVALUATIONS} slow evaluations leave a pool of ${CONNECTIONS} free for other work`, async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: CONNECTIONS })
  const guard = new WriteGuard(pool, { lockTimeout: '1m' })
  const remote = gate()
  let evaluating = 0
  const evaluation = async (entity: number) => {
    const seen = await openIncidents(entity)(pool)
    evaluating++
    await remote.opened // The slow part.
    return guard.run({ ...opening(entity), seen })
  }
  try {
    const all = Promise.all(Array.from({ length: EVALUATIONS }, (_, entity) => evaluation(entity)))
    await until('all of them evaluate', () => evaluating === EVALUATIONS)
    assert.deepEqual([pool.totalCount, pool.waitingCount], [pool.idleCount, 0])
    const { rows } = await inTime(pool.query('select 1 as one'), 'an answer during the evaluations')
    assert.deepEqual(rows, [{ one: 1 }])
    remote.open()
    assert.equal(new Set(await all).size, EVALUATIONS)
  } finally {
    remote.open()
    await pool.end()
  }
})

test('the contrast: a lock held across the evaluation takes a connection each, and the pool is used up', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: CONNECTIONS })
  const remote = gate()
  let evaluating = 0
  const evaluation = async (entity: number) => {
    const session = await pool.connect()
    try {
      await session.query('select pg_advisory_lock($1)', [entity])
      evaluating++
      await remote.opened
      await session.query('select pg_advisory_unlock($1)', [entity])
    } finally {
      session.release()
    }
  }
  try {
    const all = Promise.all(Array.from({ length: EVALUATIONS }, (_, entity) => evaluation(entity)))
    await until('as many as can evaluate', () => evaluating === CONNECTIONS)
    let answered = false
    const answer = pool.query('select 1').then(() => {
      answered = true
    })
    // Another session's reply arrives meanwhile; this one cannot have arrived.
    await db.pool.query('select 1')
    assert.equal(answered, false)
    assert.deepEqual([pool.idleCount, pool.waitingCount], [0, EVALUATIONS - CONNECTIONS + 1])
    remote.open()
    await Promise.all([all, answer])
  } finally {
    remote.open()
    await pool.end()
  }
})
