// One call of a relay with several events of a key: an event is not sent after one of its key that was not. The call is made by the test.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Connection } from '../../src/db/connection.ts'
import { Snooze } from '../../src/index.ts'
import { DestinationUnavailable, deliver, type OutgoingEvent, type SendResult } from '../../src/outbox/index.ts'
import { Sender } from '../../src/outbox/sender.ts'
import type { BatchJob } from '../../src/worker/job.ts'
import { ACKNOWLEDGED, numberOf, outboxScene, scripted } from './scene.ts'

const NOT_NOW: SendResult = { outcome: 'refused_for_now', reason: 'not now' }

interface Called {
  /** The numbers of each batch that was sent. */
  readonly sent: number[][]
  /** Of each event by its number: sent, back (with no attempt spent), or the message of its error. */
  readonly outcomes: Record<number, string>
}

/** Events 1 to 4 have one key, 9 has another. `answer` may abort the job of an event. */
async function call(
  t: TestContext,
  answer: (numbers: number[], abort: (n: number) => void) => unknown,
  { size = 100, tooLarge }: { size?: number; tooLarge?: number } = {},
): Promise<Called> {
  const { db, destination, publishMany } = await outboxScene(t)
  const billing = await destination('billing')
  const numbers = [1, 2, 3, 4, 9]
  const ids = await publishMany(numbers.map((n) => ({ key: n === 9 ? 'other' : 'k', data: { n } })))
  const { rows } = await db.pool.query(
    `select payload as input, partition_key as "partitionKey" from leasehold.jobs order by array_position($1, payload ->> 'id')`,
    [ids],
  )
  const outcomes: Called['outcomes'] = {}
  const aborts = numbers.map(() => new AbortController())
  const jobs = rows.map((row, nth) => {
    const settle = (outcome: string) => {
      outcomes[numbers[nth]!] ??= outcome
    }
    const fail = (error: Error) => settle(error instanceof Snooze ? 'back' : error.message)
    return { ...row, attempt: 1, signal: aborts[nth]!.signal, succeed: () => settle('sent'), fail }
  }) as BatchJob[]
  const abort = (n: number) => aborts[numbers.indexOf(n)]!.abort(new Error('cancelled'))
  const transport = Object.assign(
    scripted((events) => answer(events.map(numberOf), abort), { eventBytes: 100 }),
    { takesRuns: true, sizeOf: (event: OutgoingEvent) => (numberOf(event) === tooLarge ? 101 : 1) },
  )
  const connection = new Connection({ pool: db.pool, log: () => {} })
  const { handler } = new Sender(connection, deliver(billing, transport, { size }))
  await handler.runBatch!(jobs, new AbortController().signal)
  return { sent: transport.batches.map((batch) => batch.map(numberOf)), outcomes }
}

test('an event that makes the transport throw fails alone, and those behind it are not sent', async (t) => {
  const { sent, outcomes } = await call(t, (numbers) => {
    if (numbers.includes(2)) throw new Error('a bug')
    return ACKNOWLEDGED
  })
  assert.deepEqual(sent, [[1, 2, 3, 4, 9], [1], [2], [9]])
  assert.deepEqual(outcomes, { 1: 'sent', 2: 'a bug', 3: 'back', 4: 'back', 9: 'sent' })
})

test('an event that is cancelled while the destination is away is not sent, nor those behind it', async (t) => {
  let isAway = true
  const { sent, outcomes } = await call(t, (_, abort) => {
    if (!isAway) return ACKNOWLEDGED
    isAway = false
    abort(3)
    throw new DestinationUnavailable('away')
  })
  assert.deepEqual(sent, [
    [1, 2, 3, 4, 9],
    [1, 2, 9],
  ])
  assert.deepEqual(outcomes, { 1: 'sent', 2: 'sent', 3: 'cancelled', 4: 'back', 9: 'sent' })
})

test('an event that is cancelled while a batch before it is sent is not sent, nor those behind it', async (t) => {
  const aborting = (_: number[], abort: (n: number) => void) => {
    abort(3)
    return ACKNOWLEDGED
  }
  const { sent, outcomes } = await call(t, aborting, { size: 2 })
  assert.deepEqual(sent, [[1, 2], [9]])
  assert.deepEqual(outcomes, { 1: 'sent', 2: 'sent', 3: 'cancelled', 4: 'back', 9: 'sent' })
})

test('after a refusal no later batch has an event of the key', async (t) => {
  const answer = (numbers: number[]) => numbers.map((n) => (n === 2 ? NOT_NOW : ACKNOWLEDGED))
  const { sent, outcomes } = await call(t, answer, { size: 2 })
  assert.deepEqual(sent, [[1, 2], [9]])
  assert.deepEqual(outcomes, { 1: 'sent', 2: 'not now', 3: 'back', 4: 'back', 9: 'sent' })
})

test('of an event that is too large and one ahead of it that is refused, the one ahead decides', async (t) => {
  const answer = (numbers: number[]) => numbers.map((n) => (n === 1 ? NOT_NOW : ACKNOWLEDGED))
  const { sent, outcomes } = await call(t, answer, { size: 1, tooLarge: 3 })
  assert.deepEqual(sent, [[1], [9]])
  assert.match(outcomes[3]!, /takes at most 100/)
  assert.deepEqual({ ...outcomes, 3: '' }, { 1: 'not now', 2: 'back', 3: '', 4: 'back', 9: 'sent' })
})

for (const size of [1, 100]) {
  test(`an event that is too large fails, those ahead of it are sent and those behind it are not, by ${size}`, async (t) => {
    const { sent, outcomes } = await call(t, () => ACKNOWLEDGED, { size, tooLarge: 3 })
    assert.deepEqual(sent.flat(), [1, 2, 9])
    assert.match(outcomes[3]!, /takes at most 100/)
    assert.deepEqual({ ...outcomes, 3: '' }, { 1: 'sent', 2: 'sent', 3: '', 4: 'back', 9: 'sent' })
  })
}
