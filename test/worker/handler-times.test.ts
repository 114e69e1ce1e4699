// What handlers take by the mean of late, for a worker that watches its queues.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { type HeldClaim, HeldJob } from '../../src/worker/job.ts'
import { Slots } from '../../src/worker/slots.ts'

test('of several kinds the one whose handlers take the least counts, once one of them has ended', () => {
  const handlers = new Map(['slow', 'fast'].map((name) => [name, handle(kind(name), () => {})]))
  const slots = new Slots(handlers, 1, 0)
  const run = (name: string, ms: number) => {
    const claimed = { kind: name, payload: '1' } as ClaimedJob
    slots.add(new HeldJob(claimed, handlers.get(name)!, {} as HeldClaim))
    const job = slots.start(1_000)!
    slots.ran(job, 1_000 + ms)
    slots.release(job)
    return slots.handlerMs
  }
  assert.equal(slots.handlerMs, 0)
  assert.deepEqual([run('slow', 100), run('slow', 200), run('slow', 300)], [100, 150, 200])
  assert.deepEqual([run('fast', 10), run('slow', 1_000), run('fast', 20)], [10, 10, 15])
  for (let time = 0; time < 200; time++) run('fast', 400)
  assert.ok(slots.handlerMs > 390, 'what was long ago counts little')
})
