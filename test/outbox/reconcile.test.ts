// What was sent and did not arrive, told apart from what was not sent; the delay and the duplicates.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type pg from 'pg'
import { byEvent } from '../../src/consumer/received-event.ts'
import { Lane } from '../../src/db/lane.ts'
import { Inbox, type SentEvent } from '../../src/inbox/index.ts'
import { Fatal, InvalidOptionError, Leasehold } from '../../src/index.ts'
import { DelayHistogram } from '../../src/outbox/delays.ts'
import { deliver, inProcess, type ReceiptOrJson, type ReconcileOptions } from '../../src/outbox/index.ts'
import { reconcile } from '../../src/outbox/reconcile.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { count } from '../support/worker.ts'
import { numberOf, type OutboxScene, outboxScene } from './scene.ts'

const ALL = new Date(0)

interface TwoSides extends OutboxScene {
  /** Of the receiver, on a database of its own. */
  readonly inbox: Inbox
  readonly there: TestDatabase
}

async function twoSides(t: TestContext): Promise<TwoSides> {
  const there = await freshDatabase(t)
  const base = await outboxScene(t)
  const receiver = new Leasehold({ connectionString: there.url, log: () => {} })
  base.undo.after(() => receiver.close())
  return { ...base, there, inbox: new Inbox(receiver, { source: 'shop' }) }
}

/** Sends what waits, and stops. A number in `lost` is acknowledged and never received, one in `refused` is a dead letter. */
async function send(
  { destination, relay, inbox, db }: TwoSides,
  { lost = [], refused = [] }: { lost?: number[]; refused?: number[] } = {},
) {
  const billing = await destination('billing', { onDeadLetter: 'skip' })
  const deliverOne = inProcess(async (event) => {
    if (refused.includes(numberOf(event))) throw new Fatal('no')
    if (!lost.includes(numberOf(event))) await inbox.once(event.id, () => {})
  })
  const sending = relay([deliver(billing, deliverOne)])
  const unsent = `from leasehold.job where queue = 'outbox:billing'`
  await until('all are sent', async () => (await count(db, unsent)) === 0)
  await sending.stop()
}

/** The numbers of a report, without those that are zero. */
async function reconciled({ outbox, inbox }: TwoSides, options: Partial<ReconcileOptions> = {}) {
  const { delay, missingEvents, destination, ...counts } = await outbox.reconcile({
    destination: 'billing',
    from: ALL,
    received: (events) => inbox.receipts(events),
    within: 0,
    ...options,
  })
  const { events, duplicateRate, duplicates, ...states } = counts
  const sum = Object.values(states).reduce((before, each) => before + each, 0)
  assert.equal(sum, events, 'every event is in exactly one state')
  return Object.fromEntries(Object.entries(counts).filter(([, number]) => number !== 0))
}

test('an event that was acknowledged and never received is missing, and no other', async (t) => {
  const both = await twoSides(t)
  const { outbox, publishMany, destination, db, lh } = both
  await destination('billing', { onDeadLetter: 'skip' })
  const ids = await publishMany([1, 2, 3, 4].map((n) => ({ key: `k${n}`, data: { n } })))
  await send(both, { lost: [2], refused: [3] })
  const [, withdrawn] = await publishMany([5, 6].map((n) => ({ key: `k${n}`, data: { n } })))
  const { rows } = await db.pool.query(`select id from leasehold.job where payload ->> 'id' = $1`, [withdrawn])
  await lh.cancel(rows[0].id, { reason: 'withdrawn' })
  assert.deepEqual(await reconciled(both), {
    events: 6,
    received: 2,
    missing: 1,
    deadLetters: 1,
    unsent: 1,
    cancelled: 1,
  })
  const received = (events: readonly SentEvent[]) => both.inbox.receipts(events)
  const { missingEvents } = await outbox.reconcile({ destination: 'billing', from: ALL, received, within: 0 })
  const [{ publishedAt, sentAt, ...missing }] = missingEvents as [(typeof missingEvents)[0]]
  assert.deepEqual(missing, { id: ids[1], source: '/test', type: 'order.paid', key: 'k2' })
  assert.ok(sentAt >= publishedAt)
  // A replay sends them all again, and the event that had not been sent yet twice.
  await both.outbox.replay({ destination: 'billing', from: ALL })
  assert.deepEqual(await reconciled(both), { events: 6, received: 2, unsent: 4 }, 'what is replayed waits')
  await send(both)
  assert.deepEqual(await reconciled(both), { events: 6, received: 6, duplicates: 3, duplicateRate: 1 / 3 })
})

test('an event that was sent less than `within` ago is in flight', async (t) => {
  const both = await twoSides(t)
  const { publish, destination, db } = both
  await destination('billing', { onDeadLetter: 'skip' })
  await publish({ data: { n: 1 } })
  await db.clock.advance('10m')
  await send(both, { lost: [1] })
  assert.deepEqual(
    await reconciled(both, { within: '5m' }),
    { events: 1, inFlight: 1 },
    'published before, sent within',
  )
  await db.clock.advance('5m')
  assert.deepEqual(await reconciled(both, { within: '5m' }), { events: 1, missing: 1 })
})

test('an event that is sent while the receiver answers is in flight, however short `within` is', async (t) => {
  const both = await twoSides(t)
  const { publish, destination, inbox } = both
  await destination('billing', { onDeadLetter: 'skip' })
  await publish({ data: { n: 1 } })
  const received = async (events: readonly SentEvent[]) => {
    const before = await inbox.receipts(events)
    await send(both)
    return before
  }
  assert.deepEqual(await reconciled(both, { received }), { events: 1, inFlight: 1 })
  assert.deepEqual(await reconciled(both), { events: 1, received: 1 })
})

test('an event that is sent between the looks at jobs and archive is in one of them', async (t) => {
  const both = await twoSides(t)
  const { publish, destination, db } = both
  await destination('billing', { onDeadLetter: 'skip' })
  await publish({ data: { n: 1 } })
  const isSent = { yet: false }
  const query = async (config: pg.QueryArrayConfig) => {
    const answer = await db.pool.query(config)
    if (/^-- event\.read_(unsent|sent)/.test(config.text) && !isSent.yet) {
      isSent.yet = true
      await send(both)
    }
    return answer
  }
  const received = (events: readonly SentEvent[]) => both.inbox.receipts(events)
  const report = await reconcile(new Lane({ query }), { destination: 'billing', from: ALL, received, within: 0 })
  assert.deepEqual([report.unsent, report.unrecorded], [1, 0])
  assert.ok(isSent.yet)
})

test('a report goes page by page, and asks about each event once', async (t) => {
  const both = await twoSides(t)
  const { publishMany, destination, inbox, outbox } = both
  const billing = await destination('billing')
  const ids = await publishMany(Array.from({ length: 2_500 }, (_, n) => ({ data: { n } })))
  const pages: number[] = []
  const asked = new Set<string>()
  const received = async (events: readonly SentEvent[]): Promise<ReceiptOrJson[]> => {
    pages.push(events.length)
    for (const { id } of events) asked.add(id)
    return inbox.receipts(events)
  }
  const { events, unsent } = await outbox.reconcile({ destination: billing, from: ALL, received })
  assert.deepEqual([pages, asked.size, events, unsent], [[1_000, 1_000, 500], 2_500, 2_500, 2_500])
  assert.deepEqual(asked, new Set(ids))
})

test('events of other destinations and outside the range do not count', async (t) => {
  const both = await twoSides(t)
  const { publish, destination, db } = both
  await destination('billing', { types: ['order.*'], onDeadLetter: 'skip' })
  const at = new Date('2026-11-18T12:00:00Z')
  await db.clock.stopAt(at)
  await publish({ type: 'order.paid' })
  await publish({ type: 'stock.low' })
  await db.clock.stopAt(new Date(at.getTime() + 60_000))
  await publish({ type: 'order.paid' })
  await db.clock.stopAt(new Date(at.getTime() + 120_000))
  assert.deepEqual(await reconciled(both), { events: 2, unsent: 2 })
  assert.deepEqual(await reconciled(both, { to: new Date(at.getTime() + 60_000) }), { events: 1, unsent: 1 })
  assert.deepEqual(await reconciled(both, { from: new Date(at.getTime() + 1) }), { events: 1, unsent: 1 })
})

test('an event of before its destination has no record, and one that the receiver has forgotten is not missing', async (t) => {
  const both = await twoSides(t)
  const { publish, there, db } = both
  await publish({ data: { n: 1 } })
  await send(both)
  await db.clock.advance('1m')
  assert.deepEqual(await reconciled(both), { events: 1, unrecorded: 1 })
  await there.clock.advance('16d') // The inbox keeps ids for 15.
  assert.deepEqual(await reconciled(both), { events: 1, forgotten: 1 })
})

test('an event is found under its id and under its source and id, as byEvent stores it', async (t) => {
  const { inbox } = await twoSides(t)
  const event = (id: string): SentEvent => ({ id, source: '/shop', publishedAt: new Date().toISOString() })
  const [plain, whole, both, none] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]
  const headers = { 'ce-specversion': '1.0', 'ce-id': whole, 'ce-source': '/shop', 'ce-type': 'a' }
  const key = byEvent.key({ attributes: headers, text: '', data: undefined } as never)
  for (const id of [plain, key, key, both, `/shop ${both}`]) await inbox.once(id, () => {})
  const found = await inbox.receipts([plain, whole, both, none].map(event))
  assert.deepEqual(
    found.map((receipt) => (receipt.outcome === 'received' ? receipt.duplicates : receipt.outcome)),
    [0, 1, 1, 'not_received'],
  )
  assert.deepEqual(await inbox.receipts([]), [])
})

test('the delay is from publish to receipt, and a percentile is at most 2.2 % too high', async (t) => {
  const both = await twoSides(t)
  const { publish, outbox, inbox, db, there } = both
  const at = new Date('2026-11-18T12:00:00Z')
  await db.clock.stopAt(at)
  await there.clock.stopAt(new Date(at.getTime() + 90_000))
  await both.destination('billing', { onDeadLetter: 'skip' })
  await inbox.once(await publish({ data: { n: 1 } }), () => {})
  await db.clock.stopAt(new Date(at.getTime() + 120_000))
  const received = (events: readonly SentEvent[]) => inbox.receipts(events)
  const { delay } = await outbox.reconcile({ destination: 'billing', from: ALL, received })
  assert.deepEqual(delay, { p50Ms: 90_000, p95Ms: 90_000, p99Ms: 90_000, maxMs: 90_000 })

  const histogram = new DelayHistogram()
  assert.equal(histogram.summary(), undefined)
  for (let ms = 1; ms <= 10_000; ms++) histogram.add(ms)
  const { p50Ms, p95Ms, p99Ms, maxMs } = histogram.summary()!
  for (const [found, expected] of [
    [p50Ms, 5_000],
    [p95Ms, 9_500],
    [p99Ms, 9_900],
  ] as const) {
    assert.ok(found >= expected && found <= expected * 1.022, `${found} for ${expected}`)
  }
  assert.equal(maxMs, 10_000)
})

test('a receiver that answers in JSON, wrongly, or for other events, and bad options', async (t) => {
  const both = await twoSides(t)
  const { publish, destination, outbox, inbox } = both
  await destination('billing')
  await publish({})
  const json = JSON.parse('{"outcome":"received","receivedAt":"2026-11-18T12:00:00.000Z","duplicates":3}')
  assert.deepEqual(await reconciled(both, { received: () => [json] }), {
    events: 1,
    received: 1,
    duplicates: 3,
    duplicateRate: 0.75,
  })
  const isRefused = (part: RegExp) => (error: unknown) =>
    error instanceof InvalidOptionError && part.test(error.message)
  for (const bad of [undefined, null, {}, { outcome: 'received' }, { ...json, receivedAt: 'x' }, { outcome: 'lost' }]) {
    const received = () => [bad as unknown as ReceiptOrJson]
    await assert.rejects(
      reconciled(both, { received }),
      isRefused(/reconcile\.received cannot be used: receipt 0 must be/),
    )
  }
  for (const bad of [[], [json, json], undefined as never]) {
    await assert.rejects(reconciled(both, { received: () => bad }), isRefused(/asked about 1 events/))
  }
  await assert.rejects(reconciled(both, { destination: 'nowhere' }), isRefused(/outbox\.configure\(\)/))
  await assert.rejects(reconciled(both, { from: 'x' as never }), isRefused(/reconcile\.from/))
  await assert.rejects(reconciled(both, { within: 'x' as never }), isRefused(/reconcile\.within/))
  await assert.rejects(outbox.reconcile({} as never), isRefused(/reconcile\.destination/))
  await assert.rejects(inbox.receipts(undefined as never), isRefused(/events/))
  const whole = { id: 'a', source: 'b', publishedAt: new Date() }
  for (const bad of [undefined, { ...whole, id: '' }, { ...whole, source: 1 }, { ...whole, publishedAt: 'soon' }]) {
    await assert.rejects(inbox.receipts([bad as never]), isRefused(/events\[0\]/))
  }
})
