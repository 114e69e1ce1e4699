// What configure() stores, and what it does not change.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { kind, queue } from '../../src/index.ts'
import { type Declaration, readRetention, storeConfiguration } from '../../src/jobs/configuration.ts'
import { type TestDatabase, waitUntilBlocked } from '../support/database.ts'
import { session } from '../support/queue.ts'
import { codeOf, scene } from '../support/worker.ts'

const DAY_MS = 86_400_000

async function rowsOf({ pool }: Pick<TestDatabase, 'pool'>, table: string): Promise<Record<string, unknown>[]> {
  const { rows } = await pool.query(`select * from leasehold.${table} order by 1`)
  return rows
}

/** Which version of each row is stored: it changes when a row is written. */
async function versions({ pool }: Pick<TestDatabase, 'pool'>): Promise<unknown[]> {
  const { rows } = await pool.query(`
    select 'queue' as of, name, xmin from leasehold.queue union all select 'kind', name, xmin from leasehold.kind
    union all select 'settings', '', xmin from leasehold.settings order by 1, 2`)
  return rows
}

async function queues(db: Pick<TestDatabase, 'pool'>): Promise<unknown[]> {
  return (await rowsOf(db, 'queue')).map(({ name, ordered, on_dead_letter: on, wakes }) =>
    wakes ? [name, ordered, on] : [name, ordered, on, 'silent'],
  )
}

async function kinds({ pool }: Pick<TestDatabase, 'pool'>): Promise<unknown[]> {
  const { rows } = await pool.query(`
    select name, queue, priority, max_attempts, extract(epoch from keep)::int as keep, extract(epoch from keep_key)::int as key
    from leasehold.kind order by name`)
  return rows.map((row) => Object.values(row))
}

test('kinds, queues and the queues that kinds name are stored', async (t) => {
  const { lh, db } = await scene(t)
  const receipt = kind('receipt', { queue: 'mail', priority: 2, maxAttempts: 9, keep: '1d', keepKey: '3d' })
  await lh.configure([
    receipt,
    kind('fleeting', { keep: false }),
    queue('mail', { ordered: true, onDeadLetter: 'skip' }),
    queue('unused', { wakeUp: false }),
  ])
  assert.deepEqual(await kinds(db), [
    ['fleeting', 'fleeting', 5, 5, 0, 86_400],
    ['receipt', 'mail', 2, 9, 86_400, 259_200],
  ])
  assert.deepEqual(await queues(db), [
    ['fleeting', false, 'block'],
    ['mail', true, 'skip'],
    ['unused', false, 'block', 'silent'],
  ])
  await lh.configure([queue('unused')])
  assert.deepEqual((await queues(db)).at(-1), ['unused', false, 'block'])
})

test('configure() writes only changed rows', async (t) => {
  const { lh, db } = await scene(t, { retention: { attempts: '1d' } })
  const mail = queue('mail', { ordered: true })
  const declared = [kind('a', { queue: 'mail' }), kind('b'), mail]
  await lh.configure(declared)
  const [first, [settings]] = [await versions(db), await rowsOf(db, 'settings')]
  await lh.configure([...declared].reverse())
  const isOfSettings = (row: unknown) => (row as { of: string }).of === 'settings'
  assert.deepEqual(
    (await versions(db)).filter((row) => !isOfSettings(row)),
    first.filter((row) => !isOfSettings(row)),
  )
  assert.deepEqual(await rowsOf(db, 'settings'), [settings])
  await lh.configure([kind('b', { priority: 1 })])
  assert.deepEqual(await kinds(db), [
    ['a', 'mail', 5, 5, 604_800, 86_400],
    ['b', 'b', 1, 5, 604_800, 86_400],
  ])
  assert.deepEqual(await queues(db), [
    ['b', false, 'block'],
    ['mail', true, 'block'],
  ])
})

test('a queue that only a kind names keeps the options it was declared with', async (t) => {
  const { lh, db } = await scene(t)
  await lh.configure([queue('mail', { ordered: true, onDeadLetter: 'park' })])
  await lh.configure([kind('receipt', { queue: 'mail' })])
  assert.deepEqual(await queues(db), [['mail', true, 'park']])
  await lh.configure([queue('mail'), kind('receipt', { queue: 'mail' })])
  assert.deepEqual(await queues(db), [['mail', false, 'block']])
})

test('a queue that another deploy is declaring at the same time keeps those options, too', async (t) => {
  const { lh, db } = await scene(t)
  await lh.configure([queue('mail')])
  const [first, second] = [await session(db), await session(db)]
  await first.client.query('begin')
  await storeConfiguration(first.lane, [queue('mail', { ordered: true }), queue('new', { ordered: true })], {})
  const later = storeConfiguration(second.lane, [kind('a', { queue: 'mail' }), kind('b', { queue: 'new' })], {})
  await waitUntilBlocked(await db.connect(), second.pid)
  await first.client.query('commit')
  await later
  assert.deepEqual(await queues(db), [
    ['mail', true, 'block'],
    ['new', true, 'block'],
  ])
})

test('configure never touches a pause', async (t) => {
  const { lh, db } = await scene(t)
  await lh.pause({ queue: 'mail' }, { by: 'ada' })
  await lh.pause({ kind: 'receipt' }, { by: 'bob' })
  await lh.configure([queue('mail', { ordered: true }), kind('receipt', { queue: 'mail', priority: 1 })])
  const [[mail], [receipt]] = [await rowsOf(db, 'queue'), await rowsOf(db, 'kind')]
  assert.deepEqual([mail!.ordered, mail!.paused_by], [true, 'ada'])
  assert.deepEqual([receipt!.priority, receipt!.paused_by], [1, 'bob'])
  assert.ok(mail!.paused_at instanceof Date && receipt!.paused_at instanceof Date)
})

for (const [what, declare, table] of [
  ['queues', (name: string) => queue(name, { ordered: true }), 'queue'],
  // Of different queues, or the row of the queue would make one deploy wait for the other.
  ['kinds', (name: string, deploy: string) => kind(name, { queue: deploy }), 'kind'],
] as const) {
  test(`two deploys that name the same ${what} in opposite orders do not deadlock`, async (t) => {
    const { lh, db } = await scene(t)
    await lh.configure(['a', 'm', 'z'].map((name) => (table === 'queue' ? queue(name) : kind(name, { queue: 'q' }))))
    const [keeper, observer] = [await db.connect(), await db.connect()]
    await keeper.query('begin')
    await keeper.query(`select from leasehold.${table} where name = 'm' for update`)
    // Unsorted, each would hold one end of the alphabet here, and want the other's.
    const deploys = []
    for (const [deploy, names] of [
      ['first', ['a', 'm', 'z']],
      ['second', ['z', 'm', 'a']],
    ] as const) {
      const { lane, pid } = await session(db)
      deploys.push(
        storeConfiguration(
          lane,
          names.map<Declaration>((name) => declare(name, deploy)),
          {},
        ),
      )
      await waitUntilBlocked(observer, pid)
    }
    await keeper.query('commit')
    await Promise.all(deploys)
  })
}

test('two different declarations of one name are refused, and nothing is stored', async (t) => {
  const { lh, db } = await scene(t)
  const bad: [RegExp, unknown][] = [
    [/kind mail is declared twice/, [kind('other'), kind('mail'), kind('mail', { priority: 1 })]],
    [/queue mail is declared twice/, [queue('other'), queue('mail'), queue('mail', { ordered: true })]],
    [/configure\[1\].*kind\('name'/, [kind('other'), 'mail']],
    [/configure\[0\]/, [null]],
    [/configure\[0\]/, [{ name: 'mail' }]],
    [/must be a list/, kind('mail')],
    [/must be a list/, undefined],
  ]
  for (const [message, declarations] of bad) {
    await assert.rejects(async () => lh.configure(declarations as []), { code: 'INVALID_OPTION', message })
  }
  assert.deepEqual([await queues(db), await kinds(db)], [[], []])
  await lh.configure([kind('mail'), kind('mail'), queue('mail'), queue('mail')])
  assert.deepEqual(await queues(db), [['mail', false, 'block']])
})

test('retention is stored as far as it was given, and the rest stays', async (t) => {
  const { lh, db, leasehold } = await scene(t)
  const lane = (await session(db)).lane
  const defaults = {
    deadLetters: 30 * DAY_MS,
    attempts: 7 * DAY_MS,
    effects: 3 * DAY_MS,
    workers: 90 * DAY_MS,
    events: 7 * DAY_MS,
  }
  await lh.configure([])
  assert.deepEqual(await readRetention(lane), defaults)
  await leasehold({ retention: { effects: '1.5h', workers: '1d' } }).configure([])
  assert.deepEqual(await readRetention(lane), { ...defaults, effects: 5_400_000, workers: DAY_MS })
  await leasehold({ retention: { deadLetters: 0 } }).configure([])
  assert.deepEqual(await readRetention(lane), { ...defaults, deadLetters: 0, effects: 5_400_000, workers: DAY_MS })
  assert.equal(await codeOf(() => leasehold({ retention: { effect: '1h' } as object })), 'INVALID_OPTION')
})

async function enqueuedBySql(t: TestContext, configured: boolean): Promise<unknown[]> {
  const { lh, db } = await scene(t)
  const receipt = kind('receipt', { queue: 'mail', priority: 2, maxAttempts: 9, keepKey: '3d' })
  if (configured) await lh.configure([receipt])
  await db.pool.query(`select leasehold.enqueue('receipt', '1', '{"idempotency_key": "k"}')`)
  const { rows } = await db.pool.query(`
    select j.queue, j.priority, j.max_attempts, extract(epoch from k.keep_for)::int as keep_key
    from leasehold.job j join leasehold.idempotency_key k on k.job_id = j.id`)
  return Object.values(rows[0])
}

test('leasehold.enqueue() takes from a configured kind what its options leave out', async (t) => {
  assert.deepEqual(await enqueuedBySql(t, true), ['mail', 2, 9, 259_200])
})

test('leasehold.enqueue() uses the defaults for a kind that was never configured', async (t) => {
  assert.deepEqual(await enqueuedBySql(t, false), ['receipt', 5, 5, 86_400])
})
