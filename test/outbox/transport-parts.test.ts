// Rounds that keep the order of a key, and reasons without credentials.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DestinationUnavailable, type OutgoingEvent, type SendResult } from '../../src/outbox/transport.ts'
import { inRounds, reasonOf, withoutCredentials } from '../../src/outbox/transport-parts.ts'

const of = (key: string, id: string) => ({ key, id }) as OutgoingEvent
const events = [of('a', 'a1'), of('b', 'b1'), of('a', 'a2'), of('a', 'a3'), of('b', 'b2')]
const yes: SendResult = { outcome: 'acknowledged' }
const no: SendResult = { outcome: 'refused_for_now', reason: 'busy' }

test('events of a key are sent one after the other, and those of others beside them', async () => {
  const rounds: string[][] = []
  const results = await inRounds(events, async (round) => {
    rounds.push(round.map(({ id }) => id))
    return round.map(() => yes)
  })
  assert.deepEqual(rounds, [['a1', 'b1'], ['a2', 'b2'], ['a3']])
  assert.deepEqual(results, new Array(5).fill(yes))
})

test('behind a refused event of its key nothing is sent', async () => {
  const sent: string[] = []
  const results = await inRounds(events, async (round) => {
    sent.push(...round.map(({ id }) => id))
    return round.map(({ id }) => (id === 'a2' ? no : yes))
  })
  assert.deepEqual(sent, ['a1', 'b1', 'a2', 'b2'])
  const behind = { outcome: 'refused_for_now', reason: 'an earlier event of its key was refused' }
  assert.deepEqual(results, [yes, yes, no, behind, yes])
})

test('an error of the first round is thrown; a later one refuses its events, as others are acknowledged', async () => {
  const failing = (at: number) => {
    let round = 0
    return inRounds(events, async (list) => {
      if (round++ === at) throw new DestinationUnavailable('gone')
      return list.map(() => yes)
    })
  }
  await assert.rejects(failing(0), DestinationUnavailable)
  const gone = { outcome: 'refused_for_now', reason: 'DestinationUnavailable: gone' }
  const results = await failing(1)
  assert.deepEqual([results[0], results[1], results[2], results[4]], [yes, yes, gone, gone])
  assert.equal(results[3]!.outcome, 'refused_for_now')
})

test('a reason shows no password of a URL, and no value that is called a secret', () => {
  for (const [text, shown] of [
    ['connect nats://relay:hunter2@10.0.0.1:4222 failed', 'connect nats://…@10.0.0.1:4222 failed'],
    ['https://user:hunter2@sqs/q', 'https://…@sqs/q'],
    ['password=hunter2 is wrong', 'password=… is wrong'],
    ['{"token": "hunter2"}', '{"token": …'],
    ['Signature: hunter2', 'Signature: …'],
  ] as const) {
    assert.equal(withoutCredentials(text), shown)
  }
  assert.equal(reasonOf(new TypeError('nats://a:hunter2@b')), 'TypeError: nats://…@b')
  assert.ok(reasonOf(new Error('x'.repeat(10_000))).length <= 600)
})
