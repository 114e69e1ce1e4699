import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nextStep } from '../../src/cli/next-step.ts'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { runWorkflow } from '../support/why.ts'
import { next, scene } from '../support/worker.ts'

const mail = kind<{ to: string }>('mail')
const UNKNOWN = '987654321'

test('a job that is not there is not found', async (t) => {
  const { lh } = await scene(t)
  assert.deepEqual((await lh.why(UNKNOWN)).because, 'not_found')
  await assert.rejects(lh.why('x'), /not an id/)
})

test('a job without a worker has no handler, one that is scheduled is not due', async (t) => {
  const { lh } = await scene(t)
  const now = await lh.enqueue(mail, { to: 'a' })
  const later = await lh.enqueue(mail, { to: 'a' }, { delay: '1h' })
  const answer = await lh.why(now.jobId)
  assert.equal(answer.because, 'no_handler')
  assert.match(answer.sentence, /No live worker handles kind mail in queue mail/)
  assert.equal((await lh.why(later.jobId)).because, 'not_due')
})

test('a job that no worker started in time has expired, until a worker makes it a dead letter', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'a' }, { expiresAt: new Date(Date.now() + 3_600_000) })
  assert.equal((await lh.why(jobId)).because, 'no_handler')
  await db.clock.advance('61m')
  assert.equal((await lh.why(jobId)).because, 'expired')
})

test('a paused queue or kind is the reason while the job is due', async (t) => {
  const { lh } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'a' })
  await lh.pause({ kind: mail })
  const byKind = await lh.why(jobId)
  assert.ok(byKind.because === 'paused' && byKind.what === 'kind' && byKind.name === 'mail')
  await lh.pause({ queue: 'mail' })
  const byQueue = await lh.why(jobId)
  assert.ok(byQueue.because === 'paused' && byQueue.what === 'queue')
})

test('with live workers a due job is ready behind those ahead of it', async (t) => {
  const { lh, db } = await scene(t)
  for (let n = 0; n < 3; n++) await lh.enqueue(mail, { to: 'a' })
  const { jobId } = await lh.enqueue(mail, { to: 'a' })
  await lh.enqueue(mail, { to: 'later in line' })
  await db.pool.query(
    `insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
     values (gen_random_uuid(), 'w', '0', '{mail}', '{mail}', leasehold.clock(), leasehold.clock())`,
  )
  const answer = await lh.why(jobId)
  assert.ok(answer.because === 'ready')
  assert.deepEqual([answer.ahead, answer.workers, answer.aheadAtLeast], [3, 1, false])
  assert.match(answer.sentence, /3 jobs are ahead of it, and 1 worker handles its kind/)
  await db.pool.query('update leasehold.job set crashes = 1 where id = $1', [jobId])
  assert.equal((await lh.why(jobId)).because, 'suspect')
})

test('a claimed job names its worker, and a lease that is over', async (t) => {
  const { lh, db } = await scene(t)
  const { jobId } = await lh.enqueue(mail, { to: 'a' })
  await lh.claim(mail)
  const held = await lh.why(jobId)
  assert.ok(held.because === 'lease_held' && held.worker !== '' && !held.cancelRequested)
  await lh.cancel(jobId)
  assert.match((await lh.why(jobId)).sentence, /was asked to cancel it/)
  await db.pool.query(`update leasehold.claim set expires_at = leasehold.clock() - interval '1 s'`)
  assert.equal((await lh.why(jobId)).because, 'lease_expired')
})

test('a failed job waits for its next attempt, then is a dead letter with its error', async (t) => {
  const { lh } = await scene(t)
  const flaky = kind('flaky', { maxAttempts: 3, backoff: { first: '1h', max: '1h' } })
  const { jobId } = await lh.enqueue(flaky, {})
  const failing = handle(flaky, () => {
    throw new Error('boom')
  })
  await lh.drain([failing])
  const retrying = await lh.why(jobId)
  assert.ok(retrying.because === 'retry')
  assert.deepEqual([retrying.attempt, retrying.of, retrying.error], [2, 3, 'Error: boom'])

  const dead = await lh.enqueue(mail, { to: 'a' })
  const refuses = handle(mail, () => {
    throw new Fatal('no such address')
  })
  await lh.drain([refuses])
  const answer = await lh.why(dead.jobId)
  assert.ok(answer.because === 'dead_letter' && answer.reason === 'fatal')
  assert.match(answer.sentence, /its handler threw Fatal \(.*no such address\)/)
})

test('a completed and a cancelled job say so', async (t) => {
  const { lh } = await scene(t)
  const done = await lh.enqueue(mail, { to: 'a' })
  await lh.drain([handle(mail, () => {})])
  assert.equal((await lh.why(done.jobId)).because, 'completed')
  const gone = await lh.enqueue(mail, { to: 'a' })
  await lh.cancel(gone.jobId, { reason: 'not needed' })
  const answer = await lh.why(gone.jobId)
  assert.ok(answer.because === 'cancelled' && answer.reason === 'not needed')
})

test('a job behind another of its key names that one, and a dead letter that blocks it', async (t) => {
  const { lh } = await scene(t)
  const ordered = kind('ordered', { ordered: true, maxAttempts: 1 })
  await lh.configure([ordered, queue('ordered', { ordered: true, onDeadLetter: 'block' })])
  const first = await lh.enqueue(ordered, {}, { partitionKey: 'k' })
  const second = await lh.enqueue(ordered, {}, { partitionKey: 'k' })
  const before = await lh.why(second.jobId)
  assert.ok(before.because === 'key_blocked' && before.by === first.jobId && before.state === 'pending')
  await lh.runOnce(
    [
      handle(ordered, () => {
        throw new Fatal('bad')
      }),
    ],
    { concurrency: 1 },
  )
  const after = await lh.why(second.jobId)
  assert.ok(after.because === 'key_blocked' && after.by === first.jobId && after.state === 'dead_letter')
  assert.match(after.sentence, /Redrive it, or unblock the key/)
})

test('a queue on the ring without a seat has no owner', async (t) => {
  const { lh, db } = await scene(t)
  const cart = kind('cart')
  await lh.configure([cart, queue('cart', { ring: 'consistent' })])
  const { jobId } = await lh.enqueue(cart, {}, { partitionKey: 'cart 7' })
  await db.pool.query(
    `insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
     values (gen_random_uuid(), 'w', '0', '{cart}', '{cart}', leasehold.clock(), leasehold.clock())`,
  )
  const answer = await lh.why(jobId)
  assert.ok(answer.because === 'no_owner' && answer.queue === 'cart')
  assert.match(nextStep(answer)!, /^start a worker of queue cart, .*; leasehold workers --queue cart lists .* seats$/)
})

test('a key whose owner has no handler for the kind names that worker and its seat', async (t) => {
  const { lh, worker } = await scene(t)
  const [known, added] = [kind<string>('known', { queue: 'cart' }), kind<string>('added', { queue: 'cart' })]
  await lh.configure([known, added, queue('cart', { ring: true })])
  const old = worker([handle(known, () => {})], { label: 'old', seat: 7 })
  await next(old, 'gained', ({ buckets }) => buckets.length === 1_024)
  const fresh = worker([handle(known, () => {}), handle(added, () => {})], { label: 'fresh' })
  await next(fresh, 'gained')
  const keysOf = async (label: string) => {
    const owners = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => [`key ${n}`, await lh.ownerOf('cart', `key ${n}`)] as const),
    )
    return owners.filter(([, owner]) => owner?.label === label).map(([key]) => key)
  }
  const [ofOld] = await keysOf('old')
  const { jobId } = await lh.enqueue(added, 'x', { partitionKey: ofOld! })
  const answer = await lh.why(jobId)
  assert.ok(answer.because === 'owner_lacks_handler', answer.sentence)
  assert.deepEqual([answer.kind, answer.queue, answer.worker, answer.seat], ['added', 'cart', 'old', 7])
  assert.match(answer.sentence, /Worker old, on seat 7, owns its key and has no handler for kind added/)
  assert.match(
    nextStep(answer)!,
    /^deploy worker old with a handler for it, or stop it; leasehold workers --queue cart/,
  )

  // The next step holds: another worker takes the key over.
  const completed = next(fresh, 'completed', (job) => job.jobId === jobId)
  await old.stop()
  await completed
})

test('a run of a workflow names what it waits for', async (t) => {
  const { lh } = await scene(t)
  const { signalled, sleeping, parent, child } = await runWorkflow(lh)
  const onSignal = await lh.why(signalled)
  assert.ok(onSignal.because === 'run_waits')
  assert.deepEqual(onSignal.waits, [{ what: 'signal', name: 'approved' }])
  const onTime = await lh.why(sleeping)
  assert.ok(onTime.because === 'run_waits' && onTime.waits[0]?.what === 'sleep')
  const onJob = await lh.why(parent)
  assert.ok(onJob.because === 'run_waits')
  assert.deepEqual(onJob.waits, [{ what: 'job', name: 'send', jobId: child }])
})
