// When a message is deleted, and what happens when deleting goes wrong.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Inbox } from '../../src/inbox/index.ts'
import { inOneTransaction, inTwoPhases } from '../../src/sqs/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { createSummaries, summaries } from '../tables/summaries.ts'
import { isEmpty, next, nextEvents, silence, sqsScene, through } from './scene.ts'
import { message, STANDARD, scripted } from './scripted.ts'

test('nothing is deleted before the commit: while it waits, the message stays', async (t) => {
  const scene = await sqsScene(t)
  const { db, sqs, queue, send, consumer, depth } = scene
  await createSummaries(db, 1)
  const url = await queue()
  const sent: string[] = []
  const client = through(sqs.client, (name, send) => {
    sent.push(name)
    return send()
  })
  const keeper = await db.connect()
  const locked = gate()
  const busy = consumer<{ id: number }>(
    {
      queueUrl: url,
      handle: inTwoPhases(summaries, db.pool, {
        id: ({ body }) => body.id,
        effect: async () => {
          await keeper.query('begin; select from summary for update')
          locked.open()
          return { result: 'done' }
        },
      }),
    },
    client,
  )
  const handled = next(busy, 'handled')
  await send(url, { id: 1 })
  await locked.opened
  await until('the commit waits', async () => {
    const { rowCount } = await db.pool.query(`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`)
    return rowCount === 1
  })
  assert.deepEqual([sent.includes('DeleteMessageBatch'), await depth(url)], [false, { visible: 0, inFlight: 1 }])
  await keeper.query('commit')
  assert.equal((await handled).deleted, true)
  await isEmpty(scene, url)
})

test('a hundred that end together are deleted by ten calls', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, sendMany, consumer } = scene
  const url = await queue()
  const sizes: number[] = []
  const client = through(sqs.client, (name, send, { input }) => {
    if (name === 'DeleteMessageBatch') sizes.push(input.Entries!.length)
    return send()
  })
  await sendMany(url, [...new Array(100).keys()])
  const all = gate()
  let inside = 0
  const handle = () => {
    if (++inside === 100) all.open()
    return all.opened
  }
  const busy = consumer({ queueUrl: url, concurrency: 100, handle }, client)
  await nextEvents(busy, 'handled', 100)
  assert.deepEqual(sizes, new Array(10).fill(10))
  await isEmpty(scene, url)
})

test('entries that a batch did not delete are retried together, and the others are not', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, sendMany, consumer } = scene
  const url = await queue()
  const sizes: number[] = []
  const client = through(sqs.client, async (name, send, { input }) => {
    if (name !== 'DeleteMessageBatch') return send()
    const entries = input.Entries!
    sizes.push(entries.length)
    if (sizes.length > 1) return send()
    // The emulator would delete them, so these are not sent to it.
    const kept = (input as { Entries: unknown }).Entries
    Object.assign(input, { Entries: entries.slice(2) })
    const answer = (await send()) as { Successful: unknown[] }
    Object.assign(input, { Entries: kept })
    return { ...answer, Failed: entries.slice(0, 2).map(({ Id }) => ({ Id, Code: 'Internal', SenderFault: false })) }
  })
  await sendMany(url, [...new Array(10).keys()])
  const all = gate()
  let inside = 0
  const handle = () => {
    if (++inside === 10) all.open()
    return all.opened
  }
  const busy = consumer({ queueUrl: url, handle }, client)
  const handled = await nextEvents(busy, 'handled', 10)
  assert.ok(handled.every(({ deleted }) => deleted))
  assert.deepEqual(sizes, [10, 2])
  await isEmpty(scene, url)
})

test('a delete whose reply was lost is sent again', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, send, consumer } = scene
  const url = await queue()
  let deletes = 0
  const client = through(sqs.client, async (name, send) => {
    const answer = await send()
    if (name === 'DeleteMessageBatch' && ++deletes <= 3) throw new Error('socket hang up')
    return answer
  })
  const busy = consumer({ queueUrl: url, handle: () => {} }, client)
  const handled = next(busy, 'handled')
  await send(url, {})
  assert.deepEqual([(await handled).deleted, deletes], [true, 4])
  assert.equal(busy.counts().problem, 3)
})

test('a message that cannot be deleted is redelivered, and is already handled', async (t) => {
  const scene = await sqsScene(t)
  const { db, lh, sqs, queue, send, consumer } = scene
  await db.pool.query('create table effect ()')
  const url = await queue()
  let deletes = 0
  const client = through(sqs.client, async (name, send) => {
    if (name !== 'DeleteMessageBatch' || ++deletes > 1) return send()
    return { Failed: [{ Id: '0', Code: 'AccessDenied', SenderFault: true }] }
  })
  const busy = consumer(
    {
      queueUrl: url,
      handle: inOneTransaction(new Inbox(lh, { source: 'q' }), (tx) => tx.query('insert into effect default values')),
    },
    client,
  )
  const [handled, again] = [next(busy, 'handled'), next(busy, 'already_handled')]
  await send(url, {})
  assert.equal((await handled).deleted, false)
  sqs.endTimeouts(url)
  const { deleted, receiveCount } = await again
  assert.deepEqual([deleted, receiveCount], [true, 2])
  assert.equal((await db.pool.query('select from effect')).rowCount, 1)
  await isEmpty(scene, url)
})

test('no more messages are requested than can be started', async (t) => {
  const scene = await sqsScene(t)
  const { sqs, queue, sendMany, consumer, depth } = scene
  const url = await queue()
  const asked: number[] = []
  const client = through(sqs.client, (name, send, { input }) => {
    if (name === 'ReceiveMessage') asked.push((input as { MaxNumberOfMessages?: number }).MaxNumberOfMessages!)
    return send()
  })
  await sendMany(url, [...new Array(40).keys()])
  const [full, enough] = [gate(), gate()]
  let inside = 0
  const handle = () => {
    if (++inside === 23) full.open()
    return enough.opened
  }
  const busy = consumer({ queueUrl: url, concurrency: 23, handle }, client)
  await full.opened
  assert.deepEqual(await depth(url), { visible: 17, inFlight: 23 })
  assert.deepEqual(asked, [10, 10, 3])
  const handled = nextEvents(busy, 'handled', 40)
  enough.open()
  await handled
  assert.equal(inside, 40)
  await isEmpty(scene, url)
})

test('a delete that hangs keeps no other one from being sent', async (t) => {
  let hanging: AbortSignal | undefined
  const { start, did } = scripted([message('1'), message('2')], {
    DeleteMessageBatch: ({ signal }, usual) => {
      if (hanging !== undefined) return usual()
      hanging = signal
      return silence(signal)
    },
  })
  const first = gate()
  start(t, { queueUrl: STANDARD, handle: ({ id }) => (id === '2' ? first.opened : undefined) })
  await until('the first one hangs', () => hanging !== undefined)
  first.open()
  await until('the second one is deleted', () => did.includes('delete 2'))
  assert.equal(hanging!.aborted, false, 'the first one has not been given up yet')
})
