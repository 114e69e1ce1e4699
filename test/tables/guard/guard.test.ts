// What one guarded write does: the statements it sends, the lock it holds, and what is left when it fails.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { RolledBackError } from '../../../src/core/errors.ts'
import {
  ConcurrentModificationError,
  type GuardedWrite,
  LockTimeoutError,
  WriteGuard,
} from '../../../src/tables/index.ts'
import { freshDatabase, suiteDatabase, waitUntilBlocked } from '../../support/database.ts'
import { gate } from '../../support/gate.ts'
import {
  advisoryLocks,
  createIncidents,
  LOCK_ELSEWHERE,
  openIncidents,
  opening,
  pidOf,
} from '../../support/incidents.ts'
import { codeOf, inTime } from '../../support/worker.ts'

const db = await suiteDatabase()
await createIncidents(db)
let entities = 0
const nextEntity = () => ++entities

/** Every text that this process sends from now on. */
function sentTexts(t: TestContext): string[] {
  const texts: string[] = []
  const { prototype } = pg.Client
  const { query } = prototype
  prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [config] = args as [{ text?: string } | string]
    texts.push(typeof config === 'string' ? config : (config?.text ?? ''))
    return (query as (...args: unknown[]) => unknown).apply(this, args)
  } as typeof query
  t.after(() => {
    prototype.query = query
  })
  return texts
}

test('it adds three statements: begin, lock, commit; and returns the result of write', async (t) => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const seen = await openIncidents(entity)(db.pool)
  const texts = sentTexts(t)
  const id = await guard.run({ ...opening(entity), seen })
  assert.deepEqual(
    texts.map((text) => /^(-- \S+|\w+)/.exec(text)![0]),
    ['begin', '-- guard.lock', 'select', 'insert', 'commit'],
  )
  assert.equal(texts[0], 'begin isolation level read committed')
  assert.deepEqual(await openIncidents(entity)(db.pool), [id])
  assert.deepEqual(guard.counts(), { 'open incident': { written: 1, conflicts: 0, lockTimeouts: 0, unguarded: 0 } })
})

test('the guard works without any table of Leasehold', async (t) => {
  const empty = await freshDatabase(t)
  await empty.pool.query('drop schema leasehold cascade')
  await createIncidents(empty)
  const guard = new WriteGuard(empty.pool, { lockTimeout: '1s' })
  await guard.run({ ...opening(1), seen: [] })
  await assert.rejects(guard.run({ ...opening(1), seen: [] }), ConcurrentModificationError)
})

test('a lock is held from the re-read to the commit, and a connection no longer than that', async () => {
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  try {
    const guard = new WriteGuard(pool)
    const entity = nextEntity()
    const held: number[] = []
    const look = async () => void held.push(await advisoryLocks(db))
    const seen = await openIncidents(entity)(pool)
    // The evaluation would run here.
    assert.equal(pool.idleCount, pool.totalCount, 'a connection is held during the evaluation')
    await look()
    const { reread, write, ...rest } = opening(entity)
    await guard.run({
      ...rest,
      seen,
      reread: (tx) => look().then(() => reread(tx)),
      write: (tx) => look().then(() => write(tx)),
    })
    await look()
    assert.deepEqual(held, [0, 1, 1, 0])
    assert.equal(pool.idleCount, 1)
  } finally {
    await pool.end()
  }
})

test('a conflict holds the ids seen and found, and nothing is written', async () => {
  const told: ConcurrentModificationError[] = []
  const guard = new WriteGuard(db.pool, {
    onConflict: (error) => {
      told.push(error)
      throw new Error('from a logger')
    },
  })
  const entity = nextEntity()
  const first = await guard.run({ ...opening(entity), seen: [] })
  const late = guard.run({ ...opening(entity), seen: ['41'] })
  await assert.rejects(late, (error) => {
    assert.ok(error instanceof ConcurrentModificationError)
    assert.deepEqual([error.code, error.site], ['CONCURRENT_MODIFICATION', 'open incident'])
    assert.deepEqual([error.seen, error.found], [['41'], [first]])
    assert.deepEqual(told, [error])
    return true
  })
  const rejecting = new WriteGuard(db.pool, { onConflict: async () => Promise.reject(new Error('later')) })
  assert.equal(await codeOf(() => rejecting.run({ ...opening(entity), seen: [] })), 'CONCURRENT_MODIFICATION')
  assert.deepEqual(await openIncidents(entity)(db.pool), [first])
  assert.deepEqual(guard.counts()['open incident'], { written: 1, conflicts: 1, lockTimeouts: 0, unguarded: 0 })
  assert.equal(await advisoryLocks(db), 0)
})

test('an incident that was closed since is a change, too; order and repetition are none', async () => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const a = await guard.run({ ...opening(entity), seen: [] })
  const b = await guard.run({ ...opening(entity), seen: new Set([a]) })
  await guard.run({ ...opening(entity), seen: [BigInt(b), Number(a), b] })
  await db.pool.query('update incident set is_open = false where id = $1', [a])
  const seen = (await openIncidents(entity)(db.pool)).concat(a)
  assert.equal(await codeOf(() => guard.run({ ...opening(entity), seen })), 'CONCURRENT_MODIFICATION')
})

test('values that would compare equal by accident are refused', async () => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const bad: unknown[] = [{}, null, undefined, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, [1], true, Symbol('x')]
  for (const value of bad) {
    const seen = [value] as string[]
    await assert.rejects(guard.run({ ...opening(entity), seen }), { code: 'INVALID_OPTION', option: 'seen' })
    const reread = async () => [value] as string[]
    await assert.rejects(guard.run({ ...opening(entity), seen: [], reread }), { option: 'reread' })
  }
  const notLists: unknown[] = [undefined, null, 'abc', 7, { rows: [] }]
  for (const seen of notLists) {
    await assert.rejects(guard.run({ ...opening(entity), seen: seen as string[] }), { option: 'seen' })
  }
  assert.deepEqual(await openIncidents(entity)(db.pool), [])
  assert.deepEqual(guard.counts(), {})
})

test('invalid options are refused before anything is sent', async (t) => {
  const guard = new WriteGuard(db.pool)
  const good = { ...opening(nextEntity()), seen: [] }
  const texts = sentTexts(t)
  const bad: [string, object][] = [
    ['site', { site: '' }],
    ['lock', { lock: '' }],
    ['lock', { lock: [] }],
    ['lock', { lock: ['a', 7] }],
    ['lock', { lock: new Array(2) }],
    ['lock', { lock: Array.from({ length: 101 }, (_, n) => `k${n}`) }],
    ['reread', { reread: 7 }],
    ['write', { write: undefined }],
    ['tx', { tx: db.pool }],
    ['tx', { tx: {} }],
    ['run.lockTimeout', { lockTimeout: '1s' }],
  ]
  for (const [option, change] of bad) {
    const call = { ...good, ...change } as GuardedWrite<string>
    await assert.rejects(guard.run(call), { code: 'INVALID_OPTION', option })
  }
  await assert.rejects(guard.run(undefined as never), { code: 'INVALID_OPTION' })
  assert.deepEqual(texts, [])
  for (const lockTimeout of [0, '0.5ms', 'soon'] as never[]) {
    assert.throws(() => new WriteGuard(db.pool, { lockTimeout }), { option: 'lockTimeout' })
  }
  assert.throws(() => new WriteGuard(new pg.Client() as never), { option: 'WriteGuard' })
  assert.throws(() => new WriteGuard(db.pool, { onConflict: 'x' as never }), { option: 'onConflict' })
})

test('a write that throws is rolled back, and the lock is gone', async () => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const { write, ...rest } = opening(entity)
  const mine = new Error('mine')
  const failing = async (tx: pg.ClientBase): Promise<string> => {
    await write(tx)
    throw mine
  }
  await assert.rejects(guard.run({ ...rest, seen: [], write: failing }), mine)
  assert.equal(await advisoryLocks(db), 0)
  await guard.run({ ...rest, write, seen: [] })
  assert.equal((await openIncidents(entity)(db.pool)).length, 1)
})

test('a failed statement that write has swallowed is not reported as written', async () => {
  const guard = new WriteGuard(db.pool)
  const entity = nextEntity()
  const { write, ...rest } = opening(entity)
  const swallowing = async (tx: pg.ClientBase) => {
    await write(tx)
    await tx.query('select 1 / 0').catch(() => {})
  }
  await assert.rejects(guard.run({ ...rest, seen: [], write: swallowing }), RolledBackError)
  assert.deepEqual(await openIncidents(entity)(db.pool), [])
  assert.deepEqual(guard.counts(), {})
})

test('a lock that is held elsewhere, by plain SQL, is waited for no longer than the timeout', async () => {
  const guard = new WriteGuard(db.pool, { lockTimeout: 30 })
  const entity = nextEntity()
  const other = await db.connect()
  await other.query('begin')
  await other.query(LOCK_ELSEWHERE, [`entity:${entity}`])
  await assert.rejects(guard.run({ ...opening(entity), seen: [] }), (error) => {
    assert.ok(error instanceof LockTimeoutError)
    assert.match(error.message, new RegExp(`entity:${entity} .* 30 ms`))
    assert.equal((error.cause as { code: string }).code, '55P03')
    return true
  })
  await other.query('rollback')
  await guard.run({ ...opening(entity), seen: [] })
  assert.deepEqual(guard.counts()['open incident'], { written: 1, conflicts: 0, lockTimeouts: 1, unguarded: 0 })
})

test("the timeout is for our lock alone: write's own waits, and their 55P03, are write's own", async () => {
  const guard = new WriteGuard(db.pool, { lockTimeout: 30 })
  const entity = nextEntity()
  const { write, ...rest } = opening(entity)
  const id = await guard.run({ ...rest, write, seen: [] })
  const shown = await guard.run({
    ...rest,
    seen: [id],
    write: async (tx) => (await tx.query('show lock_timeout')).rows[0].lock_timeout,
  })
  assert.equal(shown, '0')

  const other = await db.connect()
  await other.query('begin')
  await other.query('select from incident where id = $1 for update', [id])
  const nowait = (tx: pg.ClientBase) => tx.query('select from incident where id = $1 for update nowait', [id])
  await assert.rejects(guard.run({ ...rest, seen: [id], write: nowait }), { code: '55P03' })

  const waiting = gate()
  let pid = 0
  const patient = guard.run({
    ...rest,
    seen: [id],
    write: (tx) => {
      pid = pidOf(tx)
      waiting.open()
      return tx.query('update incident set opened_by = $2 where id = $1', [id, 'patient'])
    },
  })
  await inTime(waiting.opened, 'the write began')
  await waitUntilBlocked(db.pool as never, pid)
  await other.query('rollback')
  assert.equal((await patient).rowCount, 1)
  assert.equal(guard.counts()['open incident']!.lockTimeouts, 0)
})

test("an inner guard's conflict is counted where it happened", async () => {
  const guard = new WriteGuard(db.pool)
  const [outer, inner] = [nextEntity(), nextEntity()]
  await guard.run({ ...opening(inner), seen: [] })
  const { write: _, ...rest } = opening(outer)
  const nested = guard.run({
    ...rest,
    site: 'outer',
    seen: [],
    write: (tx) => guard.run({ ...opening(inner), site: 'inner', seen: [], tx }),
  })
  await assert.rejects(nested, { site: 'inner' })
  const { outer: none, inner: one } = guard.counts()
  assert.equal(none, undefined)
  assert.equal(one!.conflicts, 1)
})
