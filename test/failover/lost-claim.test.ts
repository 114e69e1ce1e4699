// A claim is acknowledged and then lost in a failover. The job is pending again and another worker claims it, while the
// first still works on it. Each write of the first worker must be refused (promise 3).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Lane } from '../../src/db/lane.ts'
import { settle } from '../../src/jobs/outcome.ts'
import { FAILOVERS, type KindOfFailover } from '../support/failover.ts'
import { enqueueOne } from '../support/queue.ts'
import {
  cancelReachesTheRightfulHolder,
  claimIn,
  type Holder,
  isForTheRightfulHolder,
  LaneWithoutFence,
  receipts,
  recordIsAboutTheClaim,
  WRITES,
} from './writes.ts'

/** These find the job through the row of their claim, which the failover lost. They have no other check to remove. */
const FENCED_BY_THE_LEDGER = ['renew', 'release of the whole claim']
const FENCED_BY_A_TEST = Object.keys(WRITES).filter((name) => !FENCED_BY_THE_LEDGER.includes(name))
const withoutFence = (name: string) => `${name} without fence`

const QUEUES = [
  ...Object.keys(WRITES),
  ...FENCED_BY_A_TEST.map(withoutFence),
  'claimed often',
  'recorded',
  'cancel request',
  'outside',
]

/** One job in each queue. Its claim was acknowledged to the stale holder, and lost. */
async function failedOver({ event, start }: KindOfFailover) {
  const db = await start()
  after(() => db.stop())
  const lane = new Lane(db.pool)
  const { lost } = await db.failOver(
    async () => {
      for (const queue of QUEUES) await enqueueOne(lane, { queue })
    },
    async () => {
      const holders = new Map<string, Holder>()
      for (const queue of QUEUES) holders.set(queue, await claimIn(db, queue, 'stale'))
      for (let claims = 1; claims < 5; claims++) {
        const { worker, lease } = holders.get('claimed often')!
        await settle(lane, worker, [{ ...lease, verb: 'release' }])
        holders.set('claimed often', await claimIn(db, 'claimed often', 'stale'))
      }
      return holders
    },
  )
  return { event, db, lane, staleHolderOf: (queue: string) => lost.get(queue)! }
}

// Every failover comes before the first test: Node runs the hooks of a file once the tests registered so far have ended.
for (const { event, db, lane, staleHolderOf } of await Promise.all(FAILOVERS.map(failedOver))) {
  for (const [name, write] of Object.entries(WRITES)) {
    test(`${name}: the stale holder is refused and the rightful one accepted after ${event}`, () =>
      isForTheRightfulHolder(db, write, staleHolderOf(name)))
  }

  for (const name of FENCED_BY_A_TEST) {
    test(`${name}: without its test of the claim it would accept the stale holder after ${event}`, async () => {
      const stale = staleHolderOf(withoutFence(name))
      await claimIn(db, stale.lease.queue, 'rightful')
      const unfenced = new LaneWithoutFence(db.pool)
      assert.equal(await WRITES[name]!(unfenced, stale, db), 'accepted', 'this is what the fence prevents')
      assert.ok(unfenced.leftOut > 0)
    })
  }

  test(`the next claim has a higher generation than each that was lost after ${event}`, async () => {
    const stale = staleHolderOf('claimed often')
    const first = await claimIn(db, stale.lease.queue, 'rightful')
    assert.equal(first.lease.attempt, 1, 'every earlier claim was lost')
    assert.ok(first.lease.generation > stale.lease.generation)
    await settle(lane, first.worker, [{ ...first.lease, verb: 'release' }])
    const second = await claimIn(db, stale.lease.queue, 'rightful')
    assert.ok(second.lease.generation > first.lease.generation)
  })

  test(`a stale holder that queries its outcome gets superseded after ${event}`, () =>
    recordIsAboutTheClaim(db, staleHolderOf('recorded')))

  test(`a request to cancel reaches the rightful holder alone after ${event}`, () =>
    cancelReachesTheRightfulHolder(db, staleHolderOf('cancel request')))

  test(`a fenced table in another database refuses the stale holder after ${event}`, async (t) => {
    const stale = staleHolderOf('outside')
    const receipt = await receipts(t, stale.lease.jobId)
    assert.equal(await receipt.write(stale), 'applied', 'it held the job')
    assert.equal(await receipt.write(await claimIn(db, 'outside', 'rightful')), 'applied')
    assert.equal(await receipt.write(stale), 'stale')
    assert.equal(await receipt.holder(), 'rightful')
  })
}
