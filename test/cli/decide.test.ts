import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { command } from '../support/command.ts'
import { scene } from '../support/worker.ts'

const HOSTILE = `k'; drop table leasehold.job; -- " \u001b[2J${'\u202e'}`

test('unblock lets a key go on without its dead letter, and asks for --yes', async (t) => {
  const { db, lh } = await scene(t)
  const order = kind<number>('order', { queue: 'orders', maxAttempts: 1 })
  await lh.configure([order, queue('orders', { ordered: true })])
  for (const n of [1, 2]) await lh.enqueue(order, n, { partitionKey: HOSTILE })
  const refuseFirst = handle(order, ({ input }) => {
    if (input === 1) throw new Fatal('bad')
  })
  await lh.drain([refuseFirst])
  const unblock = (...more: string[]) => command(db.url, 'unblock', '--queue', 'orders', '--key', HOSTILE, ...more)
  const asked = await unblock()
  assert.equal(asked.code, 2)
  assert.match(asked.err, /in database \S+ on \S+; repeat it with --yes\n$/)
  const done = await unblock('--yes')
  assert.equal(done.code, 0, done.err)
  assert.match(done.out, /^Key .* goes on; its dead letters stay dead letters\.\n$/)
  assert.doesNotMatch((done.out + done.err).replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u)
  assert.equal((await lh.drain([refuseFirst])).completed, 1)
  const again = await unblock('--yes', '--json')
  assert.deepEqual([again.code, JSON.parse(again.out).outcome], [1, 'not_blocked'])
  assert.match(
    (await command(db.url, 'unblock', '--key', 'x')).err,
    /write: leasehold unblock --queue <name> --key <key>/,
  )
  assert.match((await command(db.url, 'unblock', '--queue', 'nix', '--key', 'x', '--yes')).err, /no queue "nix"/)
})

test('settle records what became of an effect, and the retried job goes on from there', async (t) => {
  const { db, lh } = await scene(t)
  const charge = kind('charge')
  const { jobId } = await lh.enqueue(charge, {})
  let calls = 0
  const pay = handle(charge, (job) =>
    job.once('pay', () => {
      calls++
      throw new Error('socket hang up')
    }),
  )
  await lh.drain([pay])
  assert.equal((await lh.get(jobId))!.reason, 'effect_unknown')
  assert.match((await command(db.url, 'why', jobId)).out, new RegExp(`→ leasehold settle ${jobId} <effect>`))
  const settle = (...argv: string[]) => command(db.url, 'settle', ...argv)
  for (const [argv, expected] of [
    [['999', 'pay', '--happened', '--yes'], /no job 999 in database/],
    [[jobId, 'refund', '--happened', '--yes'], /has no effect "refund"; it has pay/],
    [[jobId, 'pay', '--yes'], /--happened, or --not-happened/],
    [[jobId, 'pay', '--happened', '--not-happened'], /--happened, or --not-happened/],
    [[jobId, 'pay', '--not-happened', '--result', '1'], /--result goes with --happened/],
    [[jobId, 'pay', '--happened', '--result', '{'], /not JSON/],
    [[jobId, 'pay', '--happened'], /record that "pay" happened in database .*; repeat it with --yes/],
    [['x', 'pay', '--happened'], /"x" is not a job id/],
  ] as const) {
    const { code, err } = await settle(...argv)
    assert.match(err, expected)
    assert.equal(code, 2)
  }
  const done = await settle(jobId, 'pay', '--happened', '--result', '{"receipt": 7}', '--yes')
  assert.deepEqual(
    [done.code, done.out],
    [0, `Effect pay: settled. Return the job to its queue: leasehold retry ${jobId}\n`],
  )
  const again = await settle(jobId, 'pay', '--not-happened', '--yes')
  assert.deepEqual([again.code, again.out], [1, 'Effect pay: its outcome is known already; nothing was changed.\n'])
  await command(db.url, 'retry', jobId)
  await lh.drain([pay])
  const { status, result } = (await lh.get(jobId))!
  assert.deepEqual([status, result, calls], ['completed', { receipt: 7 }, 1])
})
