// The race that the guard is for, step by step: without it, with it, and with each of the near misses.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { withTransaction } from '../../../src/index.ts'
import { ConcurrentModificationError, WriteGuard } from '../../../src/tables/index.ts'
import { suiteDatabase, waitUntilBlocked } from '../../support/database.ts'
import { gate } from '../../support/gate.ts'
import {
  createIncidents,
  LOCK_ELSEWHERE,
  openIncident,
  openIncidents,
  opening,
  pidOf,
} from '../../support/incidents.ts'

const db = await suiteDatabase()
await createIncidents(db)
let entities = 0
const nextEntity = () => ++entities
const open = async (entity: number) => (await openIncidents(entity)(db.pool)).length

test('the timeline without a guard: two open incidents', async () => {
  const entity = nextEntity()
  const read = () => withTransaction(db.pool, openIncidents(entity))
  const w1 = await read() // T00, T01
  // T02 W1 evaluates. T03 its message becomes visible again. T04 W2 receives it.
  const w2 = await read() // T05, T06
  assert.deepEqual([w1, w2], [[], []])
  await withTransaction(db.pool, openIncident(entity, 'W1')) // T07, T08
  await withTransaction(db.pool, openIncident(entity, 'W2')) // T09, T10
  assert.equal(await open(entity), 2)
})

test('the timeline with the guard: one open incident, and W2 gets the conflict', async () => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const read = () => withTransaction(db.pool, openIncidents(entity))
  const w1 = await read() // T00, T01
  const w2 = await read() // T04, T05
  const first = await guard.run({ ...opening(entity, 'W1'), seen: w1 }) // T07, T08
  await assert.rejects(guard.run({ ...opening(entity, 'W2'), seen: w2 }), (error) => {
    assert.ok(error instanceof ConcurrentModificationError)
    assert.deepEqual(error.found, [first])
    return true
  }) // T09, T10
  assert.equal(await open(entity), 1)
})

test('the guard while W1 has not committed yet: W2 waits, then sees it', async () => {
  const guard = new WriteGuard(db.pool, { lockTimeout: '1m' })
  const entity = nextEntity()
  const [writing, mayCommit] = [gate(), gate()]
  const { write, ...rest } = opening(entity)
  const w1 = guard.run({
    ...rest,
    seen: [],
    write: async (tx) => {
      const id = await write(tx)
      writing.open()
      await mayCommit.opened
      return id
    },
  })
  await writing.opened
  const second = await db.connect()
  await second.query('begin')
  const w2 = guard.run({ ...opening(entity), seen: [], tx: second })
  w2.catch(() => {})
  await waitUntilBlocked(await db.connect(), pidOf(second))
  mayCommit.open()
  await w1
  await assert.rejects(w2, ConcurrentModificationError)
  await second.query('rollback')
  assert.equal(await open(entity), 1)
})

const RACED = 150
const RACERS = 6

test(`${RACED} entities, ${RACERS} racers each: every entity has one incident, and every other racer gets a conflict`, async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 24 })
  try {
    const guard = new WriteGuard(pool, { lockTimeout: '1m' })
    const race = async (entity: number) => {
      const everybodyHasRead = gate()
      let reading = RACERS
      const racer = async (n: number) => {
        const seen = await openIncidents(entity)(pool)
        if (--reading === 0) everybodyHasRead.open()
        await everybodyHasRead.opened
        return guard.run({ ...opening(entity, `racer ${n}`), site: 'race', seen }).catch((error) => {
          if (!(error instanceof ConcurrentModificationError)) throw error
          return undefined
        })
      }
      const ids = await Promise.all(Array.from({ length: RACERS }, (_, n) => racer(n)))
      return ids.filter((id) => id !== undefined).length
    }
    const raced = Array.from({ length: RACED }, nextEntity)
    const winners = await Promise.all(raced.map(race))
    assert.deepEqual(winners, Array(RACED).fill(1))
    for (const entity of [raced[0]!, raced.at(-1)!]) assert.equal(await open(entity), 1)
    const { rows } = await pool.query(
      'select count(*)::int as rows, count(distinct entity_id)::int as entities from incident where entity_id = any($1)',
      [raced],
    )
    assert.deepEqual(rows, [{ rows: RACED, entities: RACED }])
    const counts = { written: RACED, conflicts: RACED * (RACERS - 1), lockTimeouts: 0, unguarded: 0 }
    assert.deepEqual(guard.counts(), { race: counts })
  } finally {
    await pool.end()
  }
})

/** W1 holds the lock and has written, W2 waits for the lock by the statements given; then W1 commits, and W2 goes on. */
async function interleaved(entity: number, begin: string, lockAndRead: (tx: pg.Client) => Promise<string[]>) {
  const [w1, w2] = [await db.connect(), await db.connect()]
  await w1.query('begin')
  await w1.query(LOCK_ELSEWHERE, [`entity:${entity}`])
  assert.deepEqual(await openIncidents(entity)(w1), [])
  await openIncident(entity, 'W1')(w1)
  await w2.query(begin)
  const found = lockAndRead(w2)
  await waitUntilBlocked(await db.connect(), pidOf(w2))
  await w1.query('commit')
  if ((await found).length === 0) await openIncident(entity, 'W2')(w2)
  await w2.query('commit')
  return open(entity)
}

const lockThenRead = (entity: number) => async (tx: pg.Client) => {
  await tx.query(LOCK_ELSEWHERE, [`entity:${entity}`])
  return openIncidents(entity)(tx)
}

test('the same interleaving with two statements under READ COMMITTED: one', async () => {
  const entity = nextEntity()
  assert.equal(await interleaved(entity, 'begin isolation level read committed', lockThenRead(entity)), 1)
})

test('a near miss: lock and read in one statement write twice', async () => {
  const entity = nextEntity()
  const lockAndRead = async (tx: pg.Client) => {
    const { rows } = await tx.query(
      `select array(select id from incident where entity_id = $1 and is_open and mine.lock is not null) as ids
         from (select pg_advisory_xact_lock(hashtextextended('leasehold.guard:' || $2, 0))::text as lock offset 0) as mine`,
      [entity, `entity:${entity}`],
    )
    return rows[0].ids
  }
  assert.equal(await interleaved(entity, 'begin isolation level read committed', lockAndRead), 2)
})

test('a near miss: REPEATABLE READ writes twice', async () => {
  const entity = nextEntity()
  assert.equal(await interleaved(entity, 'begin isolation level repeatable read', lockThenRead(entity)), 2)
})

test('a near miss: a lock outside a transaction is over before the re-read, and two are written', async () => {
  const entity = nextEntity()
  const [w1, w2] = [await db.connect(), await db.connect()]
  const seenBy = async (client: pg.Client) => {
    await client.query(LOCK_ELSEWHERE, [`entity:${entity}`])
    return openIncidents(entity)(client)
  }
  assert.deepEqual([await seenBy(w1), await seenBy(w2)], [[], []]) // Neither waited for the other.
  await openIncident(entity, 'W1')(w1)
  await openIncident(entity, 'W2')(w2)
  assert.equal(await open(entity), 2)
})
