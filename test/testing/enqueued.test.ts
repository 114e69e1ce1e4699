// leasehold/testing: assertions about the jobs in a database.
import assert, { AssertionError } from 'node:assert/strict'
import { test } from 'node:test'
import { handle, InvalidOptionError, kind, withTransaction } from '../../src/index.ts'
import { assertEnqueued, enqueued, refuteEnqueued } from '../../src/testing/index.ts'
import { scene } from '../support/worker.ts'

interface Mail {
  to: string
  about?: { order: number; lines: string[] }
}

const mail = kind<Mail>('mail', {})

async function messageOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => assert.fail('it did not throw'),
    (thrown) => thrown,
  )
  assert.ok(error instanceof AssertionError, String(error))
  return error.message
}

test('a job is found by a part of its input, at any depth, or by a function', async (t) => {
  const { lh } = await scene(t)
  await lh.enqueue(mail, { to: 'ada', about: { order: 1, lines: ['a', 'b'] } })
  const { jobId } = await lh.enqueue(mail, { to: 'bob', about: { order: 2, lines: [] } }, { delay: '1h' })
  assert.equal((await assertEnqueued(lh, mail, { to: 'bob' })).id, jobId)
  assert.equal((await assertEnqueued(lh, 'mail', { about: { order: 2 } })).id, jobId)
  const job = await assertEnqueued(lh, mail, (input, { label }) => input.to === 'bob' && label === 'scheduled')
  job.input satisfies Mail
  await assertEnqueued(lh, mail, { about: { lines: ['a', 'b'] } })
  await assertEnqueued(lh, mail, undefined, { count: 2 })
  await assertEnqueued(lh, mail)
  for (const none of [{ to: 'cleo' }, { about: { lines: ['a'] } }, { about: { order: 1, lines: [] } }]) {
    await refuteEnqueued(lh, mail, none)
    await assert.rejects(assertEnqueued(lh, mail, none), AssertionError)
  }
  await refuteEnqueued(lh, 'mail', JSON.parse('{ "__proto__": {} }'))
  assert.deepEqual(
    (await enqueued(lh, mail)).map(({ input }) => input.to),
    ['ada', 'bob'],
  )
})

test('what a transaction has enqueued is there for it alone', async (t) => {
  const { lh, db } = await scene(t)
  await withTransaction(db.pool, async (tx) => {
    await lh.enqueue(mail, { to: 'ada' }, { tx })
    await assertEnqueued(lh, mail, { to: 'ada' }, { tx })
    await refuteEnqueued(lh, mail)
  })
  await assertEnqueued(lh, mail, { to: 'ada' })
  await assert.rejects(enqueued(lh, mail, {}, { tx: db.pool }), /it is a pool/)
})

test('jobs that have run count, unless a status is given', async (t) => {
  const { lh } = await scene(t)
  await lh.enqueue(mail, { to: 'ada' })
  await lh.drain([handle(mail, () => {})])
  await assertEnqueued(lh, mail, { to: 'ada' }, { status: 'completed' })
  await assertEnqueued(lh, mail)
  await refuteEnqueued(lh, mail, {}, { status: 'pending' })
})

test('the message shows what is there instead', async (t) => {
  const { lh } = await scene(t)
  assert.match(
    await messageOf(assertEnqueued(lh, mail)),
    /^A job of kind "mail" was expected: found 0\.\nThere are no jobs at all\.$/,
  )
  await lh.enqueue(kind<null>('bill', {}), null)
  assert.match(await messageOf(assertEnqueued(lh, mail)), /Kinds with jobs: "bill" \(1\)\./)
  const many = Array.from({ length: 12 }, (_, n) => ({ input: { to: `user ${n}` } }))
  await lh.enqueueMany(mail, many)
  const message = await messageOf(assertEnqueued(lh, mail, { to: 'ada' }))
  assert.match(
    message,
    /^A job of kind "mail" with input \{ to: 'ada' \} was expected: found 0\.\nJobs of kind "mail":\n {2}job \d+, ready: \{ to: 'user 0' \}\n/,
  )
  assert.match(message, /user 9' \}\n {2}and 2 more$/)
  assert.match(
    await messageOf(assertEnqueued(lh, mail, () => true, { count: 3, status: 'pending' })),
    /^3 jobs of kind "mail", pending, with input that fits was expected: found 12\./,
  )
  assert.match(
    await messageOf(refuteEnqueued(lh, mail, { to: 'user 7' })),
    /^No job of kind "mail" with input \{ to: 'user 7' \} was expected: found 1\.\nJobs of kind "mail":\n {2}job \d+, ready: \{ to: 'user 7' \}$/,
  )
})

test('more jobs than a page are looked at', async (t) => {
  const { lh } = await scene(t)
  const many = Array.from({ length: 2_100 }, (_, n) => ({ input: { to: `user ${n}` } }))
  await lh.enqueueMany(mail, many)
  assert.equal((await enqueued(lh, mail)).length, 2_100)
  await assertEnqueued(lh, mail, { to: 'user 0' })
})

test('hostile names are names, and wrong arguments are refused', async (t) => {
  const { lh } = await scene(t)
  await refuteEnqueued(lh, `'; drop table leasehold.job; --`)
  await assert.rejects(enqueued({}, mail), /it must be a Leasehold/)
  await assert.rejects(enqueued(lh, undefined as never), InvalidOptionError)
  await assert.rejects(assertEnqueued(lh, mail, {}, { coun: 1 } as object), /did you mean count\?/)
  await assert.rejects(assertEnqueued(lh, mail, {}, { count: 0 }), InvalidOptionError)
  await assert.rejects(enqueued(lh, mail, {}, { status: 'done' as 'completed' }), InvalidOptionError)
})
