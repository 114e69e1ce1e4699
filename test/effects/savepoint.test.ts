// An effect that fails in the caller's transaction: its changes are undone, the caller's are not.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ClientBase } from 'pg'
import { Lane } from '../../src/db/lane.ts'
import { Fatal, type ManualJob, NotDone, withTransaction } from '../../src/index.ts'
import { sweep } from '../../src/jobs/housekeeping.ts'
import { claimed, failureOf, ledger, takenOver } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { session } from '../support/queue.ts'
import { codeOf, doing, next, type Scene, scene } from '../support/worker.ts'

interface Paying extends Scene {
  readonly job: ManualJob<number>
  /** The recorded effects and payments. */
  paid(): Promise<{ paid: string[]; effects: string[] }>
}

async function paying(t: TestContext): Promise<Paying> {
  const setting = await scene(t)
  await setting.db.pool.query('create table payment (what text primary key)')
  const job = await claimed(setting.lh)
  const paid = async () => {
    const { rows } = await setting.db.pool.query('select what from payment order by what')
    return { paid: rows.map(({ what }) => what), effects: await ledger(setting.lh, job) }
  }
  return { ...setting, job, paid }
}

async function pay(tx: ClientBase, what: string): Promise<void> {
  await tx.query('insert into payment values ($1)', [what])
}

const half = (what: string, error: Error) => async (tx: ClientBase) => {
  await pay(tx, what)
  throw error
}

const oops = new Error('after half of it')

test('a caller that drops the error commits its own changes, without the effect and its marker', async (t) => {
  const { db, job, paid } = await paying(t)
  await withTransaction(db.pool, async (tx) => {
    await pay(tx, 'before')
    assert.equal(await failureOf(job.once('book', half('half', oops), { tx })), oops)
    await pay(tx, 'after')
  })
  assert.deepEqual(await paid(), { paid: ['after', 'before'], effects: [] })
})

test('the same transaction may try again', async (t) => {
  const { db, job, paid } = await paying(t)
  await withTransaction(db.pool, async (tx) => {
    await failureOf(job.once('book', half('book', oops), { tx }))
    await job.once('book', (own) => pay(own, 'book'), { tx })
  })
  assert.deepEqual(await paid(), { paid: ['book'], effects: ['book done by 1'] })
})

test('NotDone after a failed statement throws its cause, and the caller can go on', async (t) => {
  const { db, job, paid } = await paying(t)
  const cause = new Fatal('paid before')
  const twice = async (tx: ClientBase) => {
    await pay(tx, 'book')
    await pay(tx, 'book').catch(() => {
      throw new NotDone('twice', { cause })
    })
  }
  await withTransaction(db.pool, async (tx) => {
    assert.equal(await failureOf(job.once('book', twice, { tx })), cause)
    await pay(tx, 'instead')
  })
  assert.deepEqual(await paid(), { paid: ['instead'], effects: [] })
})

test('an effect that drops the error of a failed statement has failed', async (t) => {
  const { db, job, paid } = await paying(t)
  const drops = async (tx: ClientBase) => {
    await pay(tx, 'book')
    await pay(tx, 'book').catch(() => {})
  }
  await withTransaction(db.pool, async (tx) => {
    assert.equal(await codeOf(() => job.once('book', drops, { tx })), 'INVALID_OPTION')
    await pay(tx, 'instead')
  })
  assert.deepEqual(await paid(), { paid: ['instead'], effects: [] })
})

test('in a handler: NotDone after a failed statement steers the job', async (t) => {
  const { busy, add } = await doing(t, (job, { db }) =>
    withTransaction(db.pool, (tx) => {
      const book = async () => {
        await tx.query('select 1 / 0').catch((error) => {
          throw new NotDone('impossible', { cause: new Fatal('for good', { cause: error }) })
        })
      }
      return job.once('book', book, { tx })
    }),
  )
  const dead = next(busy, 'dead_letter')
  await add()
  const { reason, attempt } = await dead
  assert.deepEqual([reason, attempt], ['fatal', 1])
})

for (const [what, fail] of [
  ['an effect that failed', () => Promise.reject(oops)],
  [
    'an effect that completed the job and then failed',
    async (job: ManualJob<number>, tx: ClientBase) => {
      await job.complete(1, { tx })
      throw oops
    },
  ],
] as const) {
  test(`the lease is held to the end of the transaction, also after ${what}`, async (t) => {
    const setting = await paying(t)
    const { client } = await session(setting.db)
    await client.query('begin')
    await failureOf(setting.job.once('book', (tx) => fail(setting.job, tx), { tx: client }))
    await setting.db.clock.advance('31s')
    assert.deepEqual((await sweep(new Lane(setting.db.pool))).jobs, [])
    await client.query('commit')
    assert.equal((await takenOver(setting)).generation, 2)
  })
}

test('a marker that was taken over is as it was before', async (t) => {
  const setting = await paying(t)
  await failureOf(setting.job.once('book', () => Promise.reject(oops)))
  const second = await takenOver(setting)
  await withTransaction(setting.db.pool, async (tx) => {
    assert.equal(await failureOf(second.once('book', half('half', oops), { tx, ifUnknown: 'retry' })), oops)
  })
  assert.deepEqual(await setting.paid(), { paid: [], effects: ['book started by 1'] })
})

test('effects begun at once in one transaction take turns, so one that fails undoes no other', async (t) => {
  const { db, job, lh, paid } = await paying(t)
  const other = await claimed(lh)
  const ran: string[] = []
  const hold = gate()
  const slow = (what: string, error?: Error) => async (tx: ClientBase) => {
    ran.push(`${what} begins`)
    await pay(tx, what)
    await hold.opened
    ran.push(`${what} ends`)
    if (error !== undefined) throw error
  }
  await withTransaction(db.pool, async (tx) => {
    const all = Promise.allSettled([
      job.once('a', slow('a', oops), { tx }),
      job.once('b', slow('b'), { tx }),
      other.once('c', slow('c', oops), { tx }),
      job.once('d', slow('d'), { tx }),
    ])
    hold.open()
    assert.deepEqual(
      (await all).map(({ status }) => status),
      ['rejected', 'fulfilled', 'rejected', 'fulfilled'],
    )
  })
  assert.deepEqual(
    ran,
    ['a', 'b', 'c', 'd'].flatMap((what) => [`${what} begins`, `${what} ends`]),
  )
  assert.deepEqual(await paid(), { paid: ['b', 'd'], effects: ['b done by 1', 'd done by 1'] })
})

test('an effect inside another: each undoes its own', async (t) => {
  const { db, job, paid } = await paying(t)
  const outer = (last: Error | undefined) => async (tx: ClientBase) => {
    await pay(tx, 'outer')
    await Promise.allSettled([
      job.once('fails', half('fails', oops), { tx }),
      job.once('inner', () => pay(tx, 'inner'), { tx }),
    ])
    if (last !== undefined) throw last
  }
  await withTransaction(db.pool, async (tx) => {
    await failureOf(job.once('outer', outer(oops), { tx }))
    await pay(tx, 'own')
  })
  assert.deepEqual(await paid(), { paid: ['own'], effects: [] })
  await withTransaction(db.pool, (tx) => job.once('outer', outer(undefined), { tx }))
  const { effects, paid: all } = await paid()
  assert.deepEqual(
    [all, effects.sort()],
    [
      ['inner', 'outer', 'own'],
      ['inner done by 1', 'outer done by 1'],
    ],
  )
})
