// Events commit with the caller's transaction, as they were published, with one job for each destination.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withTransaction } from '../../src/index.ts'
import { type DestinationOptions, destination, Outbox } from '../../src/outbox/index.ts'
import { waitUntilBlocked } from '../support/database.ts'
import { broken } from '../support/order.ts'
import { session } from '../support/queue.ts'
import { codeOf, count, statements } from '../support/worker.ts'
import { outboxScene } from './scene.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

test('an event and its jobs exist exactly when the transaction commits', async (t) => {
  const { db, outbox, destination } = await outboxScene(t)
  await destination('billing')
  const event = { type: 'order.paid', key: 'order:1', data: { cents: 100 } }
  await assert.rejects(
    withTransaction(db.pool, async (tx) => {
      await outbox.publish(tx, event)
      throw new Error('rolled back')
    }),
    /rolled back/,
  )
  assert.deepEqual([await count(db, 'from leasehold.event'), await count(db, 'from leasehold.job')], [0, 0])
  const id = await withTransaction(db.pool, (tx) => outbox.publish(tx, event))
  assert.match(id, UUID)
  const { rows } = await db.pool.query(`select queue, kind, partition_key, payload ->> 'id' as id from leasehold.job`)
  assert.deepEqual(rows, [{ queue: 'outbox:billing', kind: 'outbox:billing', partition_key: 'order:1', id }])
})

test('an event is published by one statement, in whatever transaction an enqueue takes', async (t) => {
  const { db, outbox, destination, undo } = await outboxScene(t)
  for (const name of ['a', 'b']) await destination(name)
  const client = await db.connect()
  await client.query('begin')
  const names = statements(undo)
  await outbox.publish(client, { type: 'order.paid', key: 'k' })
  const tx = async (text: string, values: readonly (string | number | null)[]) =>
    (await client.query(text, [...values])).rows
  const data = Buffer.from('a "quoted" \\ text,\n{with} ünicode, NULL')
  await outbox.publish(tx, { type: 'order.paid', key: 'k', data, subject: 'null' })
  await client.query('commit')
  assert.deepEqual(names, ['event.publish', 'event.publish'])
  assert.equal(await count(db, 'from leasehold.job'), 4)
  const { rows } = await db.pool.query('select subject, data from leasehold.event where data is not null')
  assert.deepEqual(rows, [{ subject: 'null', data }])
  assert.deepEqual(await broken(db), [])
})

test('attributes and bytes are stored as they were published', async (t) => {
  const { db, publish } = await outboxScene(t)
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  const time = new Date('2026-01-02T03:04:05.678Z')
  const extensions = { traceparent: '00-a-b-01', priority: 3, test: true }
  const id = await publish({ data: bytes, key: 'k', subject: 's', dataSchema: 'urn:x', time, extensions })
  const { rows } = await db.pool.query('select * from leasehold.event')
  const { published_at, place, ...stored } = rows[0]
  assert.ok(published_at instanceof Date && place === '1')
  assert.deepEqual(stored, {
    id,
    time,
    source: '/test',
    type: 'order.paid',
    subject: 's',
    key: 'k',
    data_content_type: 'application/octet-stream',
    data_schema: 'urn:x',
    extensions,
    data: bytes,
  })
  const json = await publish({ data: { b: [1, 'ü'], a: null } })
  const [row] = (await db.pool.query('select data, data_content_type from leasehold.event where id = $1', [json])).rows
  assert.deepEqual([row.data.toString(), row.data_content_type], ['{"b":[1,"ü"],"a":null}', 'application/json'])
  const none = await publish({ data: undefined })
  const [empty] = (await db.pool.query('select data, data_content_type from leasehold.event where id = $1', [none]))
    .rows
  assert.deepEqual(empty, { data: null, data_content_type: null })
})

test('each destination gets the types that it takes, and SQL follows the same rows', async (t) => {
  const { db, publish, destination, outbox } = await outboxScene(t)
  await destination('all')
  await destination('orders', { types: ['order.*'] })
  await destination('paid', { types: ['order.paid', 'invoice.paid'] })
  const jobs = async (type: string) => {
    await publish({ type })
    await db.pool.query('select leasehold.publish($1)', [{ type, source: '/sql' }])
    const { rows } = await db.pool.query('delete from leasehold.job returning queue')
    await db.pool.query('delete from leasehold.order_key')
    return rows.map(({ queue }) => queue.replace('outbox:', '')).sort()
  }
  assert.deepEqual(await jobs('order.paid'), ['all', 'all', 'orders', 'orders', 'paid', 'paid'])
  assert.deepEqual(await jobs('order.'), ['all', 'all', 'orders', 'orders'])
  assert.deepEqual(await jobs('invoice.paid'), ['all', 'all', 'paid', 'paid'])
  assert.deepEqual(await jobs('orders'), ['all', 'all'])
  assert.equal(await outbox.remove('all'), 'removed')
  assert.equal(await outbox.remove('all'), 'not_found')
  assert.deepEqual(await jobs('orders'), [])
})

test('events of one key are ordered, and an event without a key waits for none', async (t) => {
  const { db, publishMany, destination } = await outboxScene(t)
  await destination('billing')
  const ids = await publishMany([{ key: 'k' }, { key: 'k' }, {}, {}])
  const { rows } = await db.pool.query(
    `select payload ->> 'id' as id, partition_key as key, blocked from leasehold.job order by key_seq`,
  )
  assert.deepEqual(rows, [
    { id: ids[0], key: 'k', blocked: false },
    { id: ids[1], key: 'k', blocked: true },
    { id: ids[2], key: ids[2], blocked: false },
    { id: ids[3], key: ids[3], blocked: false },
  ])
})

test('events of a key have their places in the order of their commits, also if one has waited for another key', async (t) => {
  const { db, outbox, publish, destination } = await outboxScene(t)
  await destination('billing')
  const [holder, waiter, observer] = [await session(db), await session(db), await db.connect()]
  await holder.client.query('begin')
  await outbox.publish(holder.client, { type: 'a', key: 'held' })
  await waiter.client.query('begin')
  const waiting = outbox.publishMany(waiter.client, [
    { type: 'a', key: 'held' },
    { type: 'second', key: 'shared' },
  ])
  await waitUntilBlocked(observer, waiter.pid)
  await publish({ type: 'first', key: 'shared' })
  await holder.client.query('commit')
  await waiting
  await waiter.client.query('commit')
  const { rows } = await db.pool.query("select type from leasehold.event where key = 'shared' order by place")
  assert.deepEqual(
    rows.map(({ type }) => type),
    ['first', 'second'],
  )
  const jobs = await db.pool.query(
    `select e.type from leasehold.job j join leasehold.event e on e.id = (j.payload ->> 'id')::uuid
     where e.key = 'shared' order by j.key_seq`,
  )
  assert.deepEqual(jobs.rows, rows)
})

test('an event of SQL is a CloudEvent in the JSON format', async (t) => {
  const { db, destination } = await outboxScene(t)
  await destination('billing')
  const publish = async (event: unknown) =>
    (await db.pool.query('select leasehold.publish($1) as id', [event])).rows[0].id
  const id = await publish({
    specversion: '1.0',
    type: 'order.paid',
    source: '/sql',
    partitionkey: 'order:7',
    subject: 's',
    time: '2026-01-02T03:04:05Z',
    traceparent: 'x',
    data: { cents: 100 },
  })
  assert.match(id, UUID)
  const { rows } = await db.pool.query('select key, extensions, data, data_content_type from leasehold.event')
  assert.equal(JSON.stringify(JSON.parse(rows[0].data.toString())), '{"cents":100}')
  assert.deepEqual(
    { ...rows[0], data: null },
    {
      key: 'order:7',
      extensions: { traceparent: 'x' },
      data: null,
      data_content_type: 'application/json',
    },
  )
  await publish({ type: 'a', source: '/sql', data_base64: 'AAH/', datacontenttype: 'image/png' })
  const [binary] = (await db.pool.query("select data from leasehold.event where type = 'a'")).rows
  assert.deepEqual(binary.data, Buffer.from([0, 1, 255]))
  for (const wrong of [
    null,
    [],
    { source: '/sql' },
    { type: 'a' },
    { type: '', source: '/sql' },
    { type: 'a', source: '/sql', specversion: '0.3' },
    { type: 'a', source: '/sql', data: 1, data_base64: 'AA==' },
    { type: 'a', source: '/sql', 'Bad Name': 1 },
    { type: 'a', source: '/sql', nested: {} },
    { type: 'a', source: '/sql', partitionkey: 'k'.repeat(1_001) },
  ]) {
    const sent = JSON.stringify(wrong)
    assert.equal(await codeOf(() => db.pool.query('select leasehold.publish($1)', [sent])), '22023', sent)
  }
  const large = { type: 'a', source: '/sql', data: 'x'.repeat(2 ** 20) }
  assert.equal(await codeOf(() => publish(large)), '54000')
})

test('an event that cannot be stored is refused before anything is sent', async (t) => {
  const { db, lh, outbox, publish, undo } = await outboxScene(t)
  const names = statements(undo)
  for (const event of [
    { type: '' },
    { type: 'x'.repeat(201) },
    { key: '' },
    { key: 'k'.repeat(1_001) },
    { id: '7' },
    { data: Buffer.alloc(2 ** 20 + 1) },
    { time: 'today' },
    { extensions: { 'Not-a-name': 1 } },
    { extensions: { partitionkey: 'k' } },
    { extensions: { half: 0.5 } },
    { subjct: 'a' },
  ]) {
    assert.equal(await codeOf(() => publish(event as never)), 'INVALID_OPTION', JSON.stringify(event).slice(0, 100))
  }
  assert.equal(await codeOf(() => publish({ data: new Date() })), 'VALUE_NOT_STORABLE')
  assert.equal(await codeOf(() => publish({ data: 'x'.repeat(2 ** 20) })), 'VALUE_NOT_STORABLE')
  assert.equal(await codeOf(() => outbox.publish(db.pool as never, { type: 'a' })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => outbox.publish(async () => [], { type: 'a', data: 1n })), 'VALUE_NOT_STORABLE')
  const sourceless = new Outbox(lh)
  assert.equal(await codeOf(() => sourceless.publish(async () => [], { type: 'a' })), 'INVALID_OPTION')
  assert.deepEqual(
    names.filter((name) => name.startsWith('event.')),
    [],
  )
})

test('a destination that cannot work is refused', async (t) => {
  const { lh, outbox } = await outboxScene(t)
  const wrong = (options: unknown) => () => destination('a', options as DestinationOptions)
  for (const call of [
    wrong({}),
    wrong({ transport: 'sqs', types: [] }),
    wrong({ transport: 'sqs', types: ['a*b'] }),
    wrong({ transport: 'sqs', onDeadLetter: 'drop' }),
    wrong({ transport: 'sqs', tranport: 'nats' }),
    () => destination('', { transport: 'sqs' }),
    () => new Outbox({} as never),
    () => outbox.configure(['a'] as never),
    () => outbox.configure([destination('a', { transport: 'sqs' }), destination('a', { transport: 'nats' })]),
  ]) {
    assert.equal(await codeOf(call), 'INVALID_OPTION', String(call))
  }
  assert.ok(lh)
})
