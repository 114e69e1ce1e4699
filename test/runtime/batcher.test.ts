// Which entries are sent again, how often, and in which batch.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Batcher, type Refusal } from '../../src/runtime/batcher.ts'
import { maybeAboutOneEntry } from '../../src/sqs/answer.ts'
import { refusals } from '../../src/sqs/request.ts'
import { refusal } from '../sqs/scripted.ts'
import { gate } from '../support/gate.ts'

/** A batcher of numbers, the reply to each request, and the requests sent. */
function sending(answer: (request: number) => readonly Refusal[] | Error) {
  const sent: number[][] = []
  const failed = gate()
  const batches = new Batcher<number>({
    send: async (items) => {
      sent.push([...items])
      const answered = answer(sent.length)
      if (answered instanceof Error) throw answered
      return answered
    },
    most: 10,
    isAboutOneEntry: maybeAboutOneEntry,
    isWanted: () => true,
    isMoreToCome: () => false,
    onAnswered: () => {},
    onProblem: failed.open,
  })
  return { sent, batches, failed: failed.opened }
}

const THREE = [1, 2, 3]

for (const error of [
  refusal('ThrottlingException'),
  refusal('RequestThrottled'),
  refusal('InternalError', 500),
  refusal('AccessDenied', 403),
  new Error('socket hang up'),
]) {
  test(`${error.message}: a request that was refused as a whole is sent again as it was`, async () => {
    const { sent, batches } = sending((request) => (request === 1 ? error : []))
    assert.deepEqual(await Promise.all(THREE.map((item) => batches.add(item))), [true, true, true])
    assert.deepEqual(sent, [THREE, THREE])
  })
}

for (const name of ['InvalidParameterValue', 'AWS.SimpleQueueService.BatchRequestTooLong']) {
  test(`${name}: one entry may have caused it, so they are sent one by one`, async () => {
    const { sent, batches } = sending((request) => (request === 1 ? refusal(name) : []))
    assert.deepEqual(await Promise.all(THREE.map((item) => batches.add(item))), [true, true, true])
    assert.deepEqual(sent, [THREE, [1], [2], [3]])
  })
}

test('of a batch only entries refused temporarily are sent again', async () => {
  const { sent, batches } = sending((request) =>
    request > 1
      ? []
      : [
          { index: 0, code: 'InternalError', forGood: false },
          { index: 2, code: 'ReceiptHandleIsInvalid', forGood: true },
        ],
  )
  assert.deepEqual(await Promise.all(THREE.map((item) => batches.add(item))), [true, true, false])
  assert.deepEqual(sent, [THREE, [1]])
})

test('entries that fail after giveUp() are not retried', async () => {
  const { sent, batches, failed } = sending(() => refusal('InternalError', 500))
  const first = batches.add(1)
  await failed
  batches.giveUp()
  assert.equal(await first, false)
  assert.ok(sent.length <= 2, `it was sent ${sent.length} times`) // If it waited, its wait was over.
  const before = sent.length
  assert.equal(await batches.add(2), false)
  assert.equal(sent.length, before + 1)
})

test('an entry is refused for good when it is at fault, not when SQS throttles', () => {
  const Failed = [
    { Id: '0', Code: 'ReceiptHandleIsInvalid', SenderFault: true },
    { Id: '1', Code: 'RequestThrottled', SenderFault: true },
    { Id: '2', Code: 'InternalError', SenderFault: false },
  ]
  const refused = refusals(5, { Successful: [{ Id: '3' }], Failed })
  assert.deepEqual(
    refused.map(({ index, code, forGood }) => [index, code, forGood]),
    [
      [0, 'ReceiptHandleIsInvalid', true],
      [1, 'RequestThrottled', false],
      [2, 'InternalError', false],
      [4, 'NotAnswered', false],
    ],
  )
})
