/**
 * What a relay relies on, for every transport. A transport states its limits, its order, its dedupe window and what its
 * acknowledgement means; each statement is checked here against a broker, and docs/transports.md prints the same statements.
 */
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import type { ReceivedEvent } from '../../src/consumer/received-event.ts'
import {
  DestinationUnavailable,
  type OutgoingEvent,
  type SendResult,
  type Transport,
} from '../../src/outbox/transport.ts'
import { gate } from '../support/gate.ts'
import type { Needs } from '../support/optional-program.ts'
import { until } from '../support/until.ts'
import { lastFirst } from '../support/worker.ts'
import type { Open } from './harness.ts'

const never = new AbortController().signal

export function event(given: Partial<OutgoingEvent> = {}): OutgoingEvent {
  const id = randomUUID()
  return {
    id,
    source: '/shop',
    type: 'shop.order.paid',
    subject: undefined,
    time: '2026-11-17T12:00:00.123Z',
    dataContentType: 'application/json',
    dataSchema: undefined,
    extensions: {},
    key: id,
    data: Buffer.from('{"order":9182}'),
    attempt: 1,
    ...given,
  }
}

const outcomes = (results: readonly SendResult[]) => results.map(({ outcome }) => outcome)
const ids = (events: readonly { readonly id: string }[]) => events.map(({ id }) => id)
const acknowledged = (count: number) => new Array(count).fill('acknowledged')

async function sendAll(transport: Transport, events: readonly OutgoingEvent[]): Promise<readonly SendResult[]> {
  const results = await transport.send(events, never)
  assert.equal(results.length, events.length, 'a result for each')
  return results
}

/** The results, or the error: nothing of it is an acknowledgement. */
async function notAcknowledged(sending: Promise<readonly SendResult[]>): Promise<unknown> {
  try {
    const results = await sending
    assert.ok(!outcomes(results).includes('acknowledged'), inspect(results))
    return results
  } catch (error) {
    return error
  }
}

/** How many bytes of data an event can have. Base64 takes four bytes for three. */
function roomIn(transport: Transport): number {
  const bare = transport.sizeOf(event({ data: Buffer.alloc(3) }))
  const perByte = (transport.sizeOf(event({ data: Buffer.alloc(3_003) })) - bare) / 3_000
  return Math.floor((transport.limits.eventBytes - bare) / perByte / 3) * 3
}

/** `hasBroker`: false for a function of this process. */
export function conforms(title: string, open: Open, needed: Needs, { hasBroker = true } = {}): void {
  const check = (what: string, run: (opened: Awaited<ReturnType<Open>>, t: TestContext) => Promise<void>) =>
    test(`${title}: ${what}`, needed, async (t) => run(await open(lastFirst(t)), t))

  check('an event arrives byte by byte, with all its attributes', async ({ transport, received }) => {
    const sent = [
      event(),
      event({
        data: randomBytes(1_000),
        dataContentType: 'application/octet-stream',
        subject: 'order 9182 %41 "ä" 📬',
      }),
      event({ data: Buffer.from('null \ufffe \u{1f4ec}'), dataContentType: 'text/plain; charset=utf-8' }),
      event({ data: undefined, dataContentType: undefined, dataSchema: 'https://example.com/schema' }),
      event({ key: 'order:9182 ß', extensions: { tenant: 'a b', traceparent: '00-ab-cd-01' } }),
    ]
    assert.deepEqual(outcomes(await sendAll(transport, sent)), acknowledged(5))
    const found = new Map((await received(5)).map((each) => [each.id, each]))
    for (const { attempt, ...expected } of sent) {
      const got = found.get(expected.id)!
      const { data, ...attributes } = expected
      assert.deepEqual(got.data && Buffer.from(got.data), data && Buffer.from(data))
      const { data: _, ...named } = got
      assert.deepEqual(named, attributes as Partial<ReceivedEvent>)
    }
  })

  check('a full batch is acknowledged event by event', async ({ transport, received }) => {
    const count = Math.min(transport.limits.batchEvents, 200)
    const sent = Array.from({ length: count }, () => event())
    assert.deepEqual(outcomes(await sendAll(transport, sent)), acknowledged(count))
    assert.deepEqual(ids(await received(count)).sort(), ids(sent).sort())
  })

  check('an event of the largest size arrives', async ({ transport, received }) => {
    const largest = event({ data: randomBytes(roomIn(transport)) })
    const { eventBytes } = transport.limits
    assert.ok(transport.sizeOf(largest) <= eventBytes && transport.sizeOf(largest) > eventBytes - 10)
    assert.deepEqual(outcomes(await sendAll(transport, [largest])), ['acknowledged'])
    assert.deepEqual(ids(await received(1)), [largest.id])
  })

  for (const forGood of [false, true]) {
    const outcome = forGood ? 'refused_for_good' : 'refused_for_now'
    check(`an event that the broker refuses is ${outcome} with a reason, and no other is`, async (opened) => {
      const transport = await opened.refusing('bad', forGood)
      const sent = [event(), event({ type: 'bad' }), event()]
      const results = await sendAll(transport, sent)
      assert.deepEqual(outcomes(results), ['acknowledged', outcome, 'acknowledged'])
      assert.match((results[1] as { reason: string }).reason, /\w/)
      assert.deepEqual(ids(await opened.received(2)).sort(), [sent[0]!.id, sent[2]!.id].sort())
      assert.deepEqual(outcomes(await sendAll(transport, [sent[1]!])), [outcome], 'also alone')
    })
  }

  check('the same id twice is one message within the dedupe window, and otherwise two with that id', async (opened) => {
    const { transport, received } = opened
    const twice = event()
    for (let n = 0; n < 2; n++) assert.deepEqual(outcomes(await sendAll(transport, [twice])), ['acknowledged'])
    const expected = transport.dedupeWindowMs > 0 ? [twice.id] : [twice.id, twice.id]
    assert.deepEqual(ids(await received(expected.length)), expected)
  })

  check('a lost reply is no acknowledgement, and sent again the event is there', async (opened) => {
    const { transport, received } = opened
    const unsure = event()
    await notAcknowledged(opened.deaf().send([unsure], never))
    assert.deepEqual(outcomes(await sendAll(transport, [unsure])), ['acknowledged'])
    const got = ids(await received(1))
    assert.deepEqual([...new Set(got)], [unsure.id])
    if (transport.dedupeWindowMs > 0) assert.equal(got.length, 1)
  })

  check(
    'events of a key arrive in the order in which they were sent, if it states so',
    async ({ transport, received }) => {
      const sent: OutgoingEvent[] = []
      for (let n = 0; n < 12; n++) {
        const two = ['a', 'b'].map((key) => event({ key, data: Buffer.from(String(n)) }))
        sent.push(...two)
        assert.deepEqual(outcomes(await sendAll(transport, two)), acknowledged(2))
      }
      const several = [0, 1, 2].map((n) => event({ key: 'a', data: Buffer.from(`several ${n}`) }))
      assert.deepEqual(outcomes(await sendAll(transport, several)), acknowledged(3))
      sent.push(...several)
      const got = await received(sent.length)
      const of = (key: string, list: readonly { readonly key?: string | undefined; readonly id: string }[]) =>
        ids(list.filter((each) => each.key === key))
      for (const key of ['a', 'b']) {
        if (transport.ordering === 'key') assert.deepEqual(of(key, got), of(key, sent))
        else assert.deepEqual(of(key, got).sort(), of(key, sent).sort())
      }
    },
  )

  check('a transport that takes runs keeps the order of a key', async ({ transport }) => {
    assert.ok(transport.ordering === 'key' || transport.takesRuns !== true)
  })

  check(
    'of a key it begins no event before the one before it is acknowledged, if it states an order',
    async (opened) => {
      if (opened.transport.ordering === 'none') return
      const gates = Object.fromEntries(['a1', 'b1', 'a2', 'a3'].map((name) => [name, gate()]))
      const begun: string[] = []
      const transport = opened.holding((name) => {
        begun.push(name)
        return gates[name]!.opened
      })
      const sent = Object.keys(gates).map((name) => event({ key: name[0]!, data: Buffer.from(name) }))
      const sending = sendAll(transport, sent)
      gates.b1!.open()
      for (const [nth, name] of ['a1', 'a2', 'a3'].entries()) {
        await until(`${name} has begun`, () => begun.includes(name))
        assert.deepEqual(
          begun.filter((each) => each.startsWith('a')),
          ['a1', 'a2', 'a3'].slice(0, nth + 1),
        )
        gates[name]!.open()
      }
      assert.deepEqual(outcomes(await sending), acknowledged(4))
      const ofKey = (await opened.received(4)).filter(({ key }) => key === 'a')
      assert.deepEqual(ids(ofKey), [sent[0]!.id, sent[2]!.id, sent[3]!.id])
    },
  )

  for (const forGood of [false, true]) {
    const outcome = forGood ? 'refused_for_good' : 'refused_for_now'
    check(
      `after an event that is ${outcome}, none of its key in the batch is accepted, and all others are`,
      async (opened) => {
        if (opened.transport.ordering === 'none') return
        const transport = await opened.refusing('bad', forGood)
        const [a1, a2, b1, a3, b2, a4] = ['a', 'a', 'b', 'a', 'b', 'a'].map((key, nth) =>
          event({ key, type: nth === 1 ? 'bad' : 'shop.order.paid' }),
        ) as [OutgoingEvent, OutgoingEvent, OutgoingEvent, OutgoingEvent, OutgoingEvent, OutgoingEvent]
        const results = outcomes(await sendAll(transport, [a1, a2, b1, a3, b2, a4]))
        assert.deepEqual(
          [results[0], results[1], results[2], results[4]],
          ['acknowledged', outcome, ...acknowledged(2)],
        )
        assert.deepEqual([results[3], results[5]], ['refused_for_now', 'refused_for_now'], 'they are not to blame')
        const got = await opened.received(3)
        assert.deepEqual(ids(got.filter(({ key }) => key === 'a')), [a1.id])
        assert.deepEqual(ids(got.filter(({ key }) => key === 'b')), ids([b1, b2]))
      },
    )
  }

  if (!hasBroker) return

  check(
    'an event that is too large is refused for good, and the transport goes on',
    async ({ transport, received }) => {
      const larger = event({ data: Buffer.alloc(roomIn(transport) + 100) })
      assert.ok(transport.sizeOf(larger) > transport.limits.eventBytes)
      assert.deepEqual(outcomes(await sendAll(transport, [larger])), ['refused_for_good'])
      const after = event()
      assert.deepEqual(outcomes(await sendAll(transport, [after])), ['acknowledged'])
      assert.deepEqual(ids(await received(1)), [after.id])
    },
  )

  check('what it has acknowledged outlives the broker; without a broker nothing is acknowledged', async (opened) => {
    const { transport, received } = opened
    const [kept, early] = [event(), event()]
    assert.deepEqual(outcomes(await sendAll(transport, [kept])), ['acknowledged'])
    const start = await opened.kill()
    const failure = await notAcknowledged(transport.send([early], never))
    if (start === undefined) return void assert.ok(failure instanceof DestinationUnavailable, inspect(failure))
    await start()
    await until('it is acknowledged', async () => {
      const results = await transport.send([early], never).catch(() => [])
      return results[0]?.outcome === 'acknowledged'
    })
    assert.deepEqual(new Set(ids(await received(2))), new Set([kept.id, early.id]))
  })

  check('no reason and no error shows credentials', async (opened) => {
    const shown: unknown[] = [await (await opened.refusing('bad', false)).send([event({ type: 'bad' })], never)]
    await opened.kill()
    shown.push(await notAcknowledged(opened.transport.send([event()], never)))
    for (const each of shown) {
      assert.ok(!inspect(each, { depth: 20, showHidden: true }).includes(opened.secret))
      assert.ok(!JSON.stringify(each).includes(opened.secret))
    }
  })

  check('an aborted call ends, and acknowledges nothing', async ({ transport }) => {
    const aborted = AbortSignal.abort(new Error('the relay stops'))
    await notAcknowledged(transport.send([event()], aborted))
  })
}
