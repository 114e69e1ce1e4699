// A message with an impossible id or key is poison. Errors of the functions that read it are not.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { kind } from '../../src/index.ts'
import { type AnsweringHandle, inOneTransaction, inOneUpdate, inTwoPhases, intoQueue } from '../../src/sqs/index.ts'
import { freshDatabase, type TestDatabase } from '../support/database.ts'
import { lastFirst } from '../support/worker.ts'
import { createSummaries, summaries, summary } from '../tables/summaries.ts'
import { next } from './scene.ts'
import { message, STANDARD, scripted } from './scripted.ts'

type Id = (message: { readonly body: { readonly id: string } }) => string
type Body = { readonly id: string }
const id: Id = ({ body }) => body.id
const never = () => assert.fail('there is no such row')

function ofRows({ pool }: TestDatabase, id: Id): readonly AnsweringHandle<Body>[] {
  return [
    inTwoPhases(summaries, pool, { id, effect: never }),
    inOneUpdate(summaries, pool, { id, from: 'pending', to: 'completed', work: never }),
  ]
}

function byKey(key: Id): readonly AnsweringHandle<Body>[] {
  const inbox = { once: never, leasehold: { enqueue: never } } as never
  return [inOneTransaction<Body>(inbox, never, { key }), intoQueue<Body>(inbox, kind<Body>('task'), { key })]
}

/** The outcome of this message: `dead, invalid_body`, `returned, threw`. */
async function end(t: TestContext, handle: AnsweringHandle<Body>, body: unknown): Promise<string> {
  const { start } = scripted([{ ...message('1'), Body: JSON.stringify(body) }])
  const undo = lastFirst(t)
  const consumer = start(undo, {
    queueUrl: STANDARD,
    deadLetterQueueUrl: `${STANDARD}-dead`,
    handle: handle as never,
  })
  return Promise.race([
    next(consumer, 'dead_letter').then(({ reason }) => `dead, ${reason}`),
    next(consumer, 'returned').then(({ reason }) => `returned, ${reason}`),
  ])
}

test('an id that no row can have is a dead letter: none, no number, too large a number, a NUL', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 1)
  for (const bad of [undefined, null, '', 1.5, {}, 'abc', '99999999999999999999', '1\0']) {
    for (const handle of ofRows(db, id)) {
      assert.equal(await end(t, handle, { id: bad }), 'dead, invalid_body', JSON.stringify(bad))
    }
  }
})

test('a key that is missing, empty, too long or has a NUL is a dead letter', async (t) => {
  for (const bad of [undefined, null, '', 'x'.repeat(1_001), 'a\0']) {
    for (const handle of byKey(id)) assert.equal(await end(t, handle, { id: bad }), 'dead, invalid_body', String(bad))
  }
})

test('a function that throws, or returns no key or a promise, does not make the message poison', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 1)
  const throws = () => {
    throw Object.assign(new Error('looked up elsewhere'), { code: '22P02' })
  }
  const wrong = [...ofRows(db, (async () => '1') as never), ...byKey(() => 1 as never)]
  for (const handle of [...ofRows(db, throws), ...byKey(throws), ...wrong]) {
    assert.equal(await end(t, handle, { id: '1' }), 'returned, threw')
  }
})

test('a trigger that refuses the claim with a bad value does not make the id poison', async (t) => {
  const db = await freshDatabase(t)
  await createSummaries(db, 1)
  await db.pool.query(`create function no() returns trigger language plpgsql as $$ begin return 1 / 0; end $$;
    create trigger no before update on summary for each row execute function no()`)
  assert.equal(await end(t, ofRows(db, id)[0]!, { id: '1' }), 'returned, threw')
  assert.equal((await summary(db, 1)).status, 'pending')
})
