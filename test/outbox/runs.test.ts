// Transports that take several events of a key in one batch: an event still waits for the acknowledgement of the one before it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deliver, inProcess, type OutgoingEvent, type SendResult } from '../../src/outbox/index.ts'
import { nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { ACKNOWLEDGED, numberOf, outboxScene, scripted } from './scene.ts'

const EVENTS = 300
const numbers = (from = 0) => Array.from({ length: EVENTS - from }, (_, n) => from + n)
const ofOneKey = () => numbers().map((n) => ({ key: 'k', data: { n } }))
const NOT_NOW: SendResult = { outcome: 'refused_for_now', reason: 'not now' }

test('in process: a refused event is received again before those behind it, and these spend no attempt', async (t) => {
  const { db, publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(ofOneKey())
  const received: number[] = []
  const refused = new Set([100, 101, 250])
  const receive = async (event: OutgoingEvent) => {
    if (refused.delete(numberOf(event))) throw new Error('not now')
    await Promise.resolve()
    received.push(numberOf(event))
  }
  const { worker } = relay([deliver(billing, inProcess(receive))])
  await until('all are received', () => worker.tally.completed === EVENTS)
  assert.deepEqual(received, numbers())
  assert.equal(await count(db, 'from leasehold.archive where attempts = 2'), 3)
  assert.equal(await count(db, 'from leasehold.archive where attempts = 1'), EVENTS - 3)
  await nothingLeft(db)
})

for (const [what, limits, sizeOf] of [
  ['that is cut by its size', { batchBytes: 1 }, () => 1],
  ['with an event that is too large', {}, (event: OutgoingEvent) => (numberOf(event) === 100 ? 2 ** 21 : 1)],
] as const) {
  test(`a batch ${what}: nothing of a key is sent after a refusal`, async (t) => {
    const { db, publishMany, destination, relay } = await outboxScene(t)
    const billing = await destination('billing', { onDeadLetter: 'skip' })
    await publishMany(ofOneKey())
    const refused = new Set([50, 200])
    const sent: number[] = []
    let several = 0
    const answer = (events: readonly OutgoingEvent[]) => {
      if (events.length > 1) several++
      let isRefused = false
      return events.map((event) => {
        isRefused ||= refused.delete(numberOf(event))
        if (!isRefused) sent.push(numberOf(event))
        return isRefused ? NOT_NOW : ACKNOWLEDGED
      })
    }
    const transport = Object.assign(scripted(answer, limits), { takesRuns: true, sizeOf })
    const { worker } = relay([deliver(billing, transport)])
    const dead = what.includes('large') ? 1 : 0
    await until('all are sent', () => worker.tally.completed + worker.tally.deadLetters === EVENTS)
    assert.deepEqual(
      sent,
      numbers().filter((n) => dead === 0 || n !== 100),
    )
    assert.equal(worker.tally.deadLetters, dead)
    assert.equal(several > 0, dead === 1)
    assert.equal(await count(db, 'from leasehold.archive where attempts = 2'), 2)
  })
}

test('in process: after an abort no more events of a key are received', async () => {
  const abort = new AbortController()
  const received: string[] = []
  const transport = inProcess(({ id }) => {
    received.push(id)
    abort.abort()
  })
  const events = ['first', 'second'].map((id) => ({ id, key: 'k' }) as OutgoingEvent)
  const results = await transport.send(events, abort.signal)
  assert.deepEqual(received, ['first'])
  assert.deepEqual(
    results.map(({ outcome }) => outcome),
    ['acknowledged', 'refused_for_now'],
  )
})

test('a transport that does not take runs gets one event of a key at a time', async (t) => {
  const { publishMany, destination, relay } = await outboxScene(t)
  const billing = await destination('billing')
  await publishMany(ofOneKey())
  const transport = scripted()
  const { worker } = relay([deliver(billing, transport)])
  await until('all are sent', () => worker.tally.completed === EVENTS)
  assert.equal(transport.batches.length, EVENTS)
  assert.deepEqual(transport.numbers(), numbers())
})
