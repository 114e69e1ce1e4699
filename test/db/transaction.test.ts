import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { RolledBackError } from '../../src/core/errors.ts'
import { Lane } from '../../src/db/lane.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { suiteDatabase } from '../support/database.ts'
import { countByStatus, enqueueOne } from '../support/queue.ts'

const db = await suiteDatabase()
const lane = new Lane(db.pool)

test('a transaction that Postgres rolled back is not reported as committed', async () => {
  await assert.rejects(
    withTransaction(db.pool, async (tx) => {
      const id = await enqueueOne(lane.within(tx))
      await tx.query('select 1 / 0').catch(() => {})
      return id
    }),
    RolledBackError,
  )
  assert.deepEqual(await countByStatus(db), {})
})

test('a connection lost in the middle rejects without ending the process, and its client leaves the pool', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  try {
    const attempt = withTransaction(pool, async (tx) => {
      const { rows } = await tx.query('select pg_backend_pid() as pid')
      const lost = new Promise((resolve) => tx.once('end', resolve))
      await db.pool.query('select pg_terminate_backend($1)', [rows[0].pid])
      await lost
      await tx.query('select 1')
    })
    await assert.rejects(attempt)
    const { rows } = await pool.query('select 1 as one')
    assert.deepEqual(rows, [{ one: 1 }])
  } finally {
    await pool.end()
  }
})

test('a transaction that Postgres aborted begins again, up to its attempts', async () => {
  await db.pool.query('create table counter (value int); insert into counter values (0)')
  const add = (attempts: number) =>
    withTransaction(
      db.pool,
      async (tx) => {
        const { rows } = await tx.query('select value from counter')
        await tx.query('update counter set value = $1', [rows[0].value + 1])
      },
      { isolation: 'repeatable read', attempts },
    )
  await Promise.all(Array.from({ length: 8 }, () => add(1_000)))
  const { rows } = await db.pool.query('select value from counter')
  assert.equal(rows[0].value, 8)

  let begun = 0
  const conflict = Object.assign(new Error('on purpose'), { code: '40P01' })
  const failing = (attempts: number) =>
    withTransaction(
      db.pool,
      async () => {
        begun++
        throw conflict
      },
      { attempts },
    )
  await assert.rejects(failing(3), conflict)
  assert.equal(begun, 3)
})

test('an isolation level that does not exist is refused before anything is sent', async () => {
  await assert.rejects(
    withTransaction(db.pool, async () => {}, { isolation: 'read uncommitted' as never }),
    { code: 'INVALID_OPTION' },
  )
})
