// An effect outside the database: the marker is committed first, the end is recorded afterwards.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { Effects } from '../../src/effects/once.ts'
import { EffectUnknownError, LeaseLostError, type ManualJob, NotDone } from '../../src/index.ts'
import { again, claimed, failureOf, ledger, returned, takenOver, task } from '../support/effects.ts'
import { gate } from '../support/gate.ts'
import { codeOf, scene, statements } from '../support/worker.ts'

function counter() {
  const effect = { runs: 0, run: () => `receipt ${++effect.runs}` }
  return effect
}

test('two runs, one effect: the second attempt gets the stored result', async (t) => {
  const { lh } = await scene(t)
  const charge = counter()
  const first = await claimed(lh)
  assert.equal(await first.once('charge', charge.run), 'receipt 1')
  assert.equal(await first.once('charge', charge.run), 'receipt 1', 'also in the same attempt')
  await first.release()
  const second = await again(lh)
  assert.equal(await second.once('charge', charge.run), 'receipt 1')
  assert.equal(charge.runs, 1)
  assert.deepEqual(await ledger(lh, second), ['charge done by 1'])
})

test('effects are distinguished by name and job', async (t) => {
  const { lh } = await scene(t)
  const charge = counter()
  const [one, other] = [await claimed(lh), await claimed(lh)]
  assert.equal(await one.once('a', charge.run), 'receipt 1')
  assert.equal(await one.once('b', charge.run), 'receipt 2')
  assert.equal(await other.once('a', charge.run), 'receipt 3')
})

test('two calls at once in one attempt run the effect once, and both get its result', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const charge = counter()
  const hold = gate()
  const slow = async () => {
    await hold.opened
    return charge.run()
  }
  const names = statements(t)
  const both = [job.once('charge', slow), job.once('charge', slow)]
  hold.open()
  assert.deepEqual(await Promise.all(both), ['receipt 1', 'receipt 1'])
  assert.deepEqual(names, ['effect.begin', 'effect.done'])
})

test('an effect begun by a lost attempt is unknown, and is not run again', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const first = await claimed(lh)
  const begun = gate()
  void first.once('charge', () => new Promise(begun.open)).catch(() => {}) // Never settles.
  await begun.opened
  const second = await takenOver(setting)
  const charge = counter()
  const error = await failureOf(second.once('charge', charge.run))
  assert.ok(error instanceof EffectUnknownError)
  assert.deepEqual([error.code, error.jobId, error.effect, charge.runs], ['EFFECT_UNKNOWN', second.id, 'charge', 0])
  assert.deepEqual(await ledger(lh, second), ['charge started by 1'])
})

test('with retry, an effect begun by a lost attempt is taken over and run again', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const first = await claimed(lh)
  const begun = gate()
  void first.once('charge', () => new Promise(begun.open)).catch(() => {})
  await begun.opened
  const second = await takenOver(setting)
  const charge = counter()
  assert.equal(await second.once('charge', charge.run, { ifUnknown: 'retry' }), 'receipt 1')
  assert.deepEqual(await ledger(lh, second), ['charge done by 2'])
})

test('an effect that throws may have happened: EffectUnknownError with the cause, now and in the next attempt', async (t) => {
  const { lh } = await scene(t)
  const first = await claimed(lh)
  const cause = new Error('socket hang up')
  const fails = () => Promise.reject(cause)
  const error = await failureOf(first.once('charge', fails))
  assert.ok(error instanceof EffectUnknownError)
  assert.equal(error.cause, cause)
  const charge = counter()
  assert.equal(await codeOf(() => first.once('charge', charge.run)), 'EFFECT_UNKNOWN')
  await first.release()
  assert.equal(await codeOf(async () => (await again(lh)).once('charge', charge.run)), 'EFFECT_UNKNOWN')
  assert.equal(charge.runs, 0, 'neither the same attempt nor the next has run it again')
})

test('an effect that throws, with retry: its error, and the next attempt or the same one runs it again', async (t) => {
  const { lh } = await scene(t)
  const first = await claimed(lh)
  const cause = new Error('socket hang up')
  let runs = 0
  const flaky = () => {
    if (++runs < 3) throw cause
    return runs
  }
  assert.equal(await failureOf(first.once('charge', flaky, { ifUnknown: 'retry' })), cause)
  assert.equal(await failureOf(first.once('charge', flaky, { ifUnknown: 'retry' })), cause)
  assert.deepEqual(await ledger(lh, first), ['charge started by 1'])
  await first.release()
  const second = await again(lh)
  assert.equal(await second.once('charge', flaky, { ifUnknown: 'retry' }), 3)
  assert.deepEqual(await ledger(lh, second), ['charge done by 2'])
})

for (const ifUnknown of ['stop', 'retry'] as const) {
  test(`NotDone with ${ifUnknown}: the marker is removed, and its cause is thrown`, async (t) => {
    const { lh } = await scene(t)
    const job = await claimed(lh)
    const declined = new Error('card declined')
    const refuses = () => {
      throw new NotDone('declined', { cause: declined })
    }
    assert.equal(await failureOf(job.once('charge', refuses, { ifUnknown })), declined)
    assert.deepEqual(await ledger(lh, job), [])
    const bare = await failureOf(
      job.once('charge', () => {
        throw new NotDone()
      }),
    )
    assert.ok(bare instanceof NotDone)
    assert.equal(await job.once('charge', () => 'at last', { ifUnknown }), 'at last')
  })
}

test('phases are recovery points: after a crash in phase three the first two are not run again', async (t) => {
  const setting = await scene(t)
  const ran: string[] = []
  const steps = async (job: Awaited<ReturnType<typeof claimed>>, third: () => Promise<string> | string) => {
    const one = await job.once('one', () => `1 ${ran.push('one')}`)
    const two = await job.once('two', () => `2 after ${one} ${ran.push('two')}`)
    return job.once('three', async () => `3 after ${two} ${await third()}`, { ifUnknown: 'retry' })
  }
  const inThree = gate()
  void steps(await claimed(setting.lh), () => new Promise(inThree.open)).catch(() => {})
  await inThree.opened
  const second = await takenOver(setting)
  assert.equal(await steps(second, () => 'done'), '3 after 2 after 1 1 2 done')
  assert.deepEqual(ran, ['one', 'two'])
  assert.deepEqual(await ledger(setting.lh, second), ['one done by 1', 'two done by 1', 'three done by 2'])
})

test('a stale worker is refused before its effect, and leaves no marker', async (t) => {
  const setting = await scene(t)
  const first = await claimed(setting.lh)
  const charge = counter()
  await returned(setting.db)
  assert.ok((await failureOf(first.once('charge', charge.run))) instanceof LeaseLostError, 'pending')
  const second = await again(setting.lh)
  assert.ok((await failureOf(first.once('charge', charge.run))) instanceof LeaseLostError, 'claimed by another')
  assert.deepEqual([await ledger(setting.lh, second), charge.runs], [[], 0])
  await second.once('charge', charge.run)
  assert.ok(
    (await failureOf(first.once('charge', charge.run))) instanceof LeaseLostError,
    'a stored result is not for it',
  )
  await second.complete()
  assert.ok((await failureOf(first.once('charge', charge.run))) instanceof LeaseLostError, 'completed')
  assert.equal(charge.runs, 1)
})

for (const [says, staleEnd] of [
  ['that it happened', () => 'stale'],
  [
    'that it did not happen',
    () => {
      throw new NotDone()
    },
  ],
] as const) {
  test(`a stale worker's report of ${says} changes nothing after another attempt took the effect over`, async (t) => {
    const setting = await scene(t)
    const { lh } = setting
    const slow = async (job: ManualJob<number>, end: () => string) => {
      const [begun, goOn] = [gate(), gate()]
      const work = async () => {
        begun.open()
        await goOn.opened
        return end()
      }
      const result = job.once('charge', work, { ifUnknown: 'retry' })
      result.catch(() => {})
      await begun.opened
      return { result, goOn: goOn.open }
    }
    const stale = await slow(await claimed(lh), staleEnd)
    const second = await takenOver(setting)
    const fresh = await slow(second, () => 'fresh')
    stale.goOn()
    await failureOf(stale.result)
    assert.deepEqual(await ledger(lh, second), ['charge started by 2'], 'nothing was changed')
    fresh.goOn()
    assert.equal(await fresh.result, 'fresh')
    assert.equal((await lh.effects(second.id))[0]?.result, 'fresh')
  })
}

test('a stale worker whose effect was not begun since records it, and gets LeaseLostError', async (t) => {
  const setting = await scene(t)
  const first = await claimed(setting.lh)
  const [begun, goOn] = [gate(), gate()]
  const late = first.once('charge', async () => {
    begun.open()
    await goOn.opened
    return 'late, but done'
  })
  await begun.opened
  await returned(setting.db)
  goOn.open()
  assert.ok((await failureOf(late)) instanceof LeaseLostError)
  const second = await again(setting.lh)
  const charge = counter()
  assert.equal(await second.once('charge', charge.run), 'late, but done')
  assert.equal(charge.runs, 0)
})

test('a process suspended after it began, whose lease expired, runs nothing and removes its marker', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  const lane = new Lane(db.pool)
  const answers = [false, true] // Asked before the effect is begun, and again before it is run.
  const effects = new Effects(
    lane,
    { jobId: job.id, claimId: job.claimId, generation: job.generation },
    { isLost: () => answers.shift()! },
  )
  const names = statements(t)
  assert.equal(await codeOf(() => effects.once('charge', () => assert.fail('it is too late'))), 'LEASE_LOST')
  assert.deepEqual(names, ['effect.begin', 'effect.not_done'])
  assert.deepEqual([await ledger(lh, job), answers], [[], []])
})

test('an effect costs two statements, and its repeat one', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const names = statements(t)
  await job.once('charge', () => 1)
  assert.deepEqual(names.splice(0), ['effect.begin', 'effect.done'])
  await job.once('charge', () => 1)
  assert.deepEqual(names, ['effect.begin'])
})

test('invalid arguments are refused before anything is sent', async (t) => {
  const { lh, db } = await scene(t)
  const job = await claimed(lh)
  const names = statements(t)
  const call = job.once as (...args: unknown[]) => Promise<unknown>
  for (const name of ['', 'a\0b', '\ud800', 'x'.repeat(201), undefined, 7]) {
    assert.equal(await codeOf(() => call(name, () => 1)), 'INVALID_OPTION')
    assert.equal(await codeOf(() => job.effectKey(name as string)), 'INVALID_OPTION')
  }
  assert.equal(await codeOf(() => call('a', 'b')), 'INVALID_OPTION')
  assert.equal(await codeOf(() => call('a', () => 1, { ifUnknown: 'again' })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => call('a', () => 1, { ifunknown: 'stop' })), 'INVALID_OPTION')
  for (const tx of [null, 'tx', {}, db.pool])
    assert.equal(await codeOf(() => call('a', () => 1, { tx })), 'INVALID_OPTION')
  assert.deepEqual(names, [])
})

test('names are data: quotes, SQL and two hundred bytes', async (t) => {
  const { lh } = await scene(t)
  const job = await claimed(lh)
  const names = [`'; drop table leasehold.effect; --`, '"', '$1', '📬'.repeat(50), 'leasehold.job']
  for (const name of names) assert.equal(await job.once(name, () => name), name)
  assert.deepEqual((await lh.effects(job.id)).map(({ name }) => name).sort(), names.sort())
})

test('the key of an effect is the same on every attempt and after a redrive, and another for each name, job and database', async (t) => {
  const setting = await scene(t)
  const { lh } = setting
  const first = await claimed(lh)
  const key = first.effectKey('charge')
  assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.notEqual(first.effectKey('refund'), key)
  const second = await takenOver(setting)
  assert.equal(second.effectKey('charge'), key)
  await second.bury(new Error('x'))
  assert.deepEqual(await lh.redrive(second.id), [second.id])
  const third = await again(lh)
  assert.equal(third.effectKey('charge'), key)
  assert.notEqual((await claimed(lh)).effectKey('charge'), key)

  const elsewhere = await scene(t)
  const same = await claimed(elsewhere.lh)
  assert.equal(same.id, first.id)
  assert.notEqual(same.effectKey('charge'), key)
  assert.equal(task.name, same.kind)
})
