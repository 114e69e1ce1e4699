// What every adapter must do with the real library. Each test file opens its library on the database of the test.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { kind, queue, type Tx } from '../../src/index.ts'
import { enqueued } from '../../src/testing/index.ts'
import { handleRuns, signal, start, workflow } from '../../src/workflow/index.ts'
import { claimed, task as effectTask } from '../support/effects.ts'
import { codeOf, count, type Scene, scene } from '../support/worker.ts'

/** A transaction of the library. */
export interface Scope {
  /** What the adapter made of it. */
  readonly tx: Tx
  /** Runs a statement of the user's, through the library. */
  execute(sql: string): Promise<unknown>
  /** A transaction within it, if the library has them. */
  nested?<T>(work: (inner: Scope) => Promise<T>): Promise<T>
}

export interface Stack {
  transaction<T>(work: (scope: Scope) => Promise<T>): Promise<T>
  /** Handles that are no open transaction, and part of the reason that the adapter gives. */
  refused(): readonly (readonly [what: string, adapt: () => Tx, reason: RegExp])[]
  close(): Promise<void>
}

const task = kind<{ text: string }>('task')
const ordered = kind<number>('step_of_order', { queue: 'orders' })
const greet = workflow<string, string>('greet', {}, async (run, name) => {
  const by = await run.signal<{ by: string }>('greeted')
  return `${name} was greeted by ${by.by}`
})
/** Quotes, braces, marks of parameters in many a library, and text that looks like a date. */
const AWKWARD = [
  `a "quote", a \\ and {braces}, 'null'`,
  `? ?? $1 :name @x %s \${y}`,
  '2024-01-01T00:00:00.123456Z',
  '1',
]

export function conforms(name: string, open: (url: string) => Promise<Stack> | Stack): void {
  const on = (what: string, run: (stack: Stack, scene: Scene, t: TestContext) => Promise<void>) =>
    test(`${name}: ${what}`, async (t) => {
      const own = await scene(t)
      const stack = await open(own.db.url)
      own.undo.after(() => stack.close())
      await own.db.pool.query('create table note (text text)')
      await run(stack, own, t)
    })
  const failing = (stack: Stack, work: (scope: Scope) => Promise<unknown>) =>
    assert.rejects(
      stack.transaction(async (scope) => {
        await work(scope)
        throw new Error('rolled back')
      }),
      /rolled back/,
    )

  on('a job exists exactly when its transaction commits', async (stack, { lh, db }) => {
    const enqueue = async ({ tx, execute }: Scope) => {
      await execute(`insert into note values ('x')`)
      return lh.enqueue(task, { text: 'x' }, { tx })
    }
    await failing(stack, enqueue)
    assert.deepEqual([await count(db, 'from leasehold.jobs'), await count(db, 'from note')], [0, 0])
    const { jobId } = await stack.transaction(async (scope) => {
      const enqueued = await enqueue(scope)
      assert.equal(await count(db, 'from leasehold.jobs'), 0, 'it is not committed')
      return enqueued
    })
    assert.deepEqual((await lh.get(jobId))!.input, { text: 'x' })
    assert.equal(await count(db, 'from note'), 1)
  })

  on('every value arrives as it was given, many jobs at a time', async (stack, { lh, db }) => {
    const runAt = new Date('2031-02-03T04:05:06.789Z')
    const jobs = AWKWARD.map((text, i) => ({
      input: { text },
      metadata: { text, list: [1, null, { text }] },
      partitionKey: text,
      priority: i,
      at: runAt,
    }))
    const stored = await stack.transaction(({ tx }) => lh.enqueueMany(task, jobs, { tx }))
    for (const [i, { jobId }] of stored.entries()) {
      const { input, metadata, partitionKey, priority } = (await lh.get(jobId))!
      assert.deepEqual({ input, metadata, partitionKey, priority, at: runAt }, jobs[i])
    }
    assert.equal(await count(db, `from leasehold.jobs where available_at = '${runAt.toISOString()}'`), AWKWARD.length)
    await failing(stack, ({ tx }) => lh.enqueueMany(task, jobs, { tx }))
    assert.equal(await count(db, 'from leasehold.jobs'), AWKWARD.length)
    const many = Array.from({ length: 1_000 }, (_, i) => ({ input: { text: String(i) } }))
    await stack.transaction(({ tx }) => lh.enqueueMany(task, many, { tx }))
    assert.equal(await count(db, 'from leasehold.jobs'), AWKWARD.length + 1_000)
  })

  on('what a transaction has enqueued is read in it as it was given', async (stack, { lh }) => {
    const any = kind<unknown>('any')
    const at = new Date('2031-02-03T04:05:06.789Z')
    const inputs = ['text', AWKWARD, { a: [1, null] }, '2024-01-01', true, 7, 1e21, null, []]
    await stack.transaction(async ({ tx }) => {
      for (const input of inputs) await lh.enqueue(any, input, { tx, at, metadata: { input } })
      const jobs = await enqueued(lh, any, undefined, { tx })
      assert.deepEqual(
        jobs.map(({ input, metadata, availableAt, label }) => ({ input, metadata, availableAt, label })),
        inputs.map((input) => ({ input, metadata: { input }, availableAt: at, label: 'scheduled' })),
      )
      assert.ok(jobs.every(({ enqueuedAt, cancelRequested }) => enqueuedAt < at && !cancelRequested))
    })
  })

  on('a conflict of keys is an error with its code, and the transaction goes on', async (stack, { lh, db }) => {
    const idempotencyKey = AWKWARD[0]!
    const keyed = (tx: Tx, text: string) => lh.enqueue(task, { text }, { tx, idempotencyKey })
    const { jobId } = await stack.transaction(({ tx }) => keyed(tx, 'one'))
    await stack.transaction(async ({ tx, execute }) => {
      assert.deepEqual(await keyed(tx, 'one'), { jobId, outcome: 'existing' })
      assert.equal(await codeOf(() => keyed(tx, 'two')), 'IDEMPOTENCY_CONFLICT')
      const several = [{ input: { text: 'new' } }, { input: { text: 'two' }, idempotencyKey }]
      assert.equal(await codeOf(() => lh.enqueueMany(task, several, { tx })), 'IDEMPOTENCY_CONFLICT')
      await execute(`insert into note values ('after')`)
    })
    assert.deepEqual([await count(db, 'from leasehold.jobs'), await count(db, 'from note')], [1, 1])
  })

  on('jobs of a key keep the order in which they were enqueued', async (stack, { lh, db }) => {
    await lh.configure([queue('orders', { ordered: true }), ordered])
    for (const input of [1, 2, 3]) {
      await stack.transaction(({ tx }) => lh.enqueue(ordered, input, { tx, partitionKey: 'k' }))
    }
    const { rows } = await db.pool.query('select payload from leasehold.job order by key_seq')
    assert.deepEqual(
      rows.map(({ payload }) => payload),
      [1, 2, 3],
    )
  })

  on('a job is completed in the transaction, or not if it rolls back', async (stack, { lh, db }) => {
    const job = await claimed(lh)
    await failing(stack, ({ tx }) => job.complete({ ok: true }, { tx }))
    assert.equal(await count(db, `from leasehold.jobs where status = 'processing'`), 1)
    await stack.transaction(async ({ tx }) => {
      await job.assertLease(tx)
      await job.complete({ ok: [1, null, AWKWARD] }, { tx })
    })
    assert.deepEqual((await lh.get(job.id))!.result, { ok: [1, null, AWKWARD] })
    const late = await codeOf(() => stack.transaction(({ tx }) => job.complete(null, { tx })))
    assert.equal(late, 'LEASE_LOST')
  })

  on('an effect and its marker commit together, and its result is read again', async (stack, { lh, db }) => {
    for (const result of [{ a: [1, null] }, 'text', '2024-01-01', [1, 'two'], true, 7, null]) {
      const job = await claimed(lh)
      const note = (scope: Scope) =>
        job.once('note', () => scope.execute(`insert into note values ('x')`).then(() => result), { tx: scope.tx })
      await failing(stack, note)
      assert.equal(await count(db, 'from note'), 0)
      assert.deepEqual([await stack.transaction(note), await stack.transaction(note)], [result, result])
      assert.equal(await count(db, 'from note'), 1)
      await db.pool.query('truncate note')
      await job.complete(null)
    }
    assert.equal(await count(db, `from leasehold.jobs where kind = '${effectTask.name}' and status = 'completed'`), 7)
  })

  on('an effect that throws is undone, and the transaction goes on', async (stack, { lh, db }) => {
    const job = await claimed(lh)
    await stack.transaction(async ({ tx, execute }) => {
      const broken = job.once(
        'note',
        async () => {
          await execute(`insert into note values ('undone')`)
          throw new Error('broken')
        },
        { tx },
      )
      await assert.rejects(broken, /broken/)
      await execute(`insert into note values ('kept')`)
    })
    const { rows } = await db.pool.query('select text from note')
    assert.deepEqual(rows, [{ text: 'kept' }])
  })

  on('a run is started and signalled in the transaction', async (stack, { lh, worker, db }) => {
    const begin = ({ tx }: Scope) => start(lh, greet, 'Ada', { tx, runId: AWKWARD[0]! })
    await failing(stack, begin)
    assert.equal(await count(db, 'from leasehold.jobs'), 0)
    const { runId } = await stack.transaction(begin)
    await stack.transaction(({ tx }) => signal(lh, greet, runId, 'greeted', { by: AWKWARD[1]! }, { tx }))
    const { jobId } = await start(lh, greet, 'Ada', { runId })
    worker([handleRuns(greet)])
    assert.equal((await lh.waitFor(jobId)).result, `Ada was greeted by ${AWKWARD[1]}`)
  })

  on('effects begun side by side in one transaction take turns', async (stack, { lh, db }) => {
    const job = await claimed(lh)
    await stack.transaction(({ tx, execute }) =>
      Promise.all(
        ['a', 'b', 'c'].map((text) =>
          job.once(text, () => execute(`insert into note values ('${text}')`).then(() => text), { tx }),
        ),
      ),
    )
    assert.equal(await count(db, 'from note'), 3)
  })

  on('what a nested transaction enqueued is undone with it', async (stack, { lh, db }) => {
    const hasNested = await stack.transaction(async ({ tx, nested }) => {
      await lh.enqueue(task, { text: 'outer' }, { tx })
      if (nested === undefined) return false
      const inner = nested(async (scope) => {
        await lh.enqueueMany(task, [{ input: { text: 'a' }, idempotencyKey: 'a' }, { input: { text: 'b' } }], {
          tx: scope.tx,
        })
        throw new Error('inner')
      })
      await assert.rejects(inner, /inner/)
      await nested((scope) => lh.enqueue(task, { text: 'inner' }, { tx: scope.tx }))
      await lh.enqueue(task, { text: 'last' }, { tx })
      return true
    })
    const { rows } = await db.pool.query(`select payload ->> 'text' as text from leasehold.job order by id`)
    assert.deepEqual(
      rows.map(({ text }) => text),
      hasNested ? ['outer', 'inner', 'last'] : ['outer'],
    )
  })

  on('a transaction in which a statement failed is refused, and the reason is given', async (stack, { lh, db }) => {
    const after = stack.transaction(async ({ tx, execute }) => {
      await assert.rejects(execute('select 1 / 0'))
      await assert.rejects(lh.enqueue(task, { text: 'x' }, { tx }), /a statement in it has failed/)
      throw new Error('ended')
    })
    await assert.rejects(after)
    assert.equal(await count(db, 'from leasehold.jobs'), 0)
  })

  on('a serialization failure has the code of a conflict', async (stack, { lh, db }) => {
    const locked = await db.connect()
    const job = await claimed(lh)
    const failure = await codeOf(() =>
      stack.transaction(async ({ tx, execute }) => {
        await execute('set transaction isolation level repeatable read')
        await execute('select from note')
        await locked.query('update leasehold.job set priority = 5')
        await job.assertLease(tx)
      }),
    )
    assert.equal(failure, 'TRANSACTION_CONFLICT')
  })

  on('a handle that is no open transaction is refused before anything runs', async (stack, { db }) => {
    for (const [what, adapt, reason] of stack.refused()) {
      assert.throws(adapt, (error: Error & { code: string; option: string }) => {
        assert.deepEqual([error.code, error.option], ['INVALID_OPTION', 'tx'], what)
        assert.match(error.message, reason, what)
        return true
      })
    }
    assert.equal(await count(db, 'from leasehold.jobs'), 0)
  })
}

/** Values that are no handle of any library. */
export const NO_HANDLES = [undefined, null, 'tx', 7, {}, async () => []] as never[]
