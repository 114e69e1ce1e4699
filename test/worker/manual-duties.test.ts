// Processes that only claim by hand also do the housekeeping: there may be no worker.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { kind, LeaseLostError } from '../../src/index.ts'
import { movableClock } from '../support/movable-clock.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { count, scene, statements, untilStatus } from '../support/worker.ts'

const mail = kind<number>('mail')

test('a claim by hand reclaims the jobs of a process that died, ahead of others that wait', async (t) => {
  const clock = movableClock(t)
  const { lh, db, leasehold } = await scene(t)
  await lh.enqueueMany(
    mail,
    Array.from({ length: 2_000 }, (_, input) => ({ input })),
  )
  const [lost] = await lh.claim(mail)
  await db.clock.advance('31 s')
  const other = leasehold()
  await other.claim(mail)
  clock.pass(6_000)
  const again = await until('it is reclaimed', async () => {
    const [job] = await other.claim(mail)
    return job?.id === lost!.id && job
  })
  assert.equal(again.generation, 2)
  assert.ok((await count(db, 'from leasehold.job where claim_id is null')) > 0, 'it came before the last of the others')
  await assert.rejects(lost!.complete(), LeaseLostError)
  await again.complete()
})

test('claims by hand expire what was not started in time, and close the ledger', async (t) => {
  const clock = movableClock(t)
  const { lh, db } = await scene(t)
  const expiresAt = new Date(Date.now() + 3_600_000)
  const late = await lh.enqueue(kind<number>('never'), 1, { expiresAt })
  await lh.enqueue(mail, 1)
  const [job] = await lh.claim(mail)
  await job!.complete()
  await db.clock.advance('2 h')
  clock.pass(6_000)
  await lh.claim(mail)
  await untilStatus(db, late.jobId, 'dead_letter')
  assert.equal((await jobRow(db, late.jobId)).reason, 'expired')
  await until('the ledger is empty', async () => (await count(db, 'from leasehold.claim')) === 0)
})

test('a process that finds nothing does housekeeping at once: it may be short-lived', async (t) => {
  const { lh, db, leasehold } = await scene(t)
  await lh.enqueue(mail, 1)
  const [lost] = await lh.claim(mail)
  await db.clock.advance('31 s')
  assert.deepEqual(await leasehold().claim(mail), [])
  await untilStatus(db, lost!.id, 'pending')
})

test('however many claims there are, duties are taken once in five seconds', async (t) => {
  const clock = movableClock(t, { stands: true })
  const { lh } = await scene(t)
  const names = statements(t)
  const asked = () => names.filter((name) => name === 'duty.take').length
  await lh.claim(mail)
  await until('the first turn begins', () => asked() === 1)
  for (let claim = 0; claim < 20; claim++) await lh.claim(mail)
  assert.equal(asked(), 1)
  // As soon as the first turn is over, the next one begins; that the clock says so is not enough.
  clock.pass(6_000)
  await until('the next turn begins', async () => {
    await lh.claim(mail)
    return asked() === 2
  })
  for (let claim = 0; claim < 20; claim++) await lh.claim(mail)
  assert.equal(asked(), 2)
})

test('a turn that fails affects no claim, is logged, and is followed by the next', async (t) => {
  const clock = movableClock(t, { stands: true })
  const { lh, db, log } = await scene(t)
  await lh.enqueue(mail, 1)
  const [lost] = await lh.claim(mail)
  await db.clock.advance('31 s')
  await db.pool.query('alter table leasehold.duty rename to elsewhere')
  assert.deepEqual(await lh.claim(mail), [])
  await until('it is logged', () => log.some(({ message }) => message.includes('housekeeping; trying again')))
  await db.pool.query('alter table leasehold.elsewhere rename to duty')
  clock.pass(6_000)
  await until('the job of the dead is reclaimed', async () => {
    const [job] = await lh.claim(mail)
    return job?.id === lost!.id
  })
})

test('while a turn takes its time no other begins', async (t) => {
  const clock = movableClock(t, { stands: true })
  const { lh, db } = await scene(t)
  const names = statements(t)
  const asked = () => names.filter((name) => name === 'duty.take').length
  const locker = await db.connect()
  await locker.query('begin; lock table leasehold.duty')
  await lh.claim(mail)
  await until('the first turn begins', () => asked() === 1)
  clock.pass(6_000)
  for (let claim = 0; claim < 20; claim++) await lh.claim(mail)
  assert.equal(asked(), 1)
  await locker.query('commit')
  await until('the next turn begins', async () => {
    await lh.claim(mail)
    return asked() === 2
  })
})

test('reclaimed jobs come first once after each reclaim, not always', async (t) => {
  const clock = movableClock(t, { stands: true })
  const { lh, db } = await scene(t)
  await lh.enqueueMany(
    mail,
    [1, 2, 3, 4].map((input) => ({ input })),
  )
  await db.pool.query("update leasehold.job set crashes = 1, lease_generation = 1 where payload in ('1', '2')")
  const [first] = await lh.claim(mail)
  await first!.release()
  clock.pass(6_000)
  await until('one of them comes first', async () => {
    const [job] = await lh.claim(mail)
    if (job!.input <= 2) return true
    await job!.release()
    return false
  })
  const [other] = await lh.claim(mail)
  assert.ok(other!.input > 2)
})

test('after a time without housekeeping, live processes get one lease to return', async (t) => {
  const clock = movableClock(t, { stands: true })
  const { lh, db, log } = await scene(t)
  await lh.claim(mail)
  const looked = 'from leasehold.sweep where looked_at is not null'
  await until('the first turn has looked', async () => (await count(db, looked)) === 1)
  const { jobId } = await lh.enqueue(mail, 1)
  await lh.claim(mail)
  await db.clock.advance('40 s')
  await db.pool.query("update leasehold.sweep set looked_at = looked_at - interval '40 s'")
  await until('it is noticed', async () => {
    clock.pass(6_000)
    await lh.claim(mail)
    return log.some(({ message }) => message.startsWith('no sweep for a while'))
  })
  assert.equal((await jobRow(db, jobId)).status, 'processing')
  await db.clock.advance('31 s')
  await until('the job is reclaimed', async () => {
    clock.pass(6_000)
    const [job] = await lh.claim(mail)
    return job?.id === jobId
  })
})
