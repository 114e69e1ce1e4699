// Unusual values on every way in and out. Each is refused before anything is sent, or recorded; no job is stuck, nothing
// becomes an unhandled rejection, and the worker goes on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fatal, handle, type JobId, kind, RetryAfter, Snooze } from '../../src/index.ts'
import { ALL_TRAPS, cyclic, LONE, MB, revoked, throwing, trap, UNSTORABLE } from '../support/poison.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import {
  codeOf,
  collect,
  count,
  next,
  nothingHeld,
  type Scene,
  scene,
  statements,
  untilStatus,
} from '../support/worker.ts'

const task = kind<unknown>('task', { backoff: { first: '1h' } })

test('an input that cannot be stored as it is is refused before anything is sent', async (t) => {
  const { lh, db } = await scene(t)
  const names = statements(t)
  for (const [what, value] of Object.entries(UNSTORABLE)) {
    assert.equal(await codeOf(() => lh.enqueue(task, value())), 'VALUE_NOT_STORABLE', what)
    const many = [{ input: 1 }, { input: value() }]
    assert.equal(await codeOf(() => lh.enqueueMany(task, many)), 'VALUE_NOT_STORABLE', what)
    if (what === 'undefined') continue
    const metadata = { held: value() } as Record<string, unknown>
    assert.equal(await codeOf(() => lh.enqueue(task, 1, { metadata })), 'VALUE_NOT_STORABLE', `metadata: ${what}`)
  }
  assert.deepEqual(names, [])
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
})

test('names and keys that cannot be stored are refused before anything is sent', async (t) => {
  const { lh, db } = await scene(t)
  const names = statements(t)
  const bad = [
    '',
    'a\0b',
    LONE,
    'x'.repeat(10 * MB),
    7,
    null,
    {},
    [],
    Symbol('x'),
    10n,
    new Proxy({}, ALL_TRAPS),
  ] as string[]
  for (const [index, value] of bad.entries()) {
    const options = [{ idempotencyKey: value }, { partitionKey: value }]
    const calls = [
      () => kind(value),
      () => kind('x', { queue: value }),
      () => lh.worker([handle(task, () => {})], { label: value ?? '' }),
      ...options.map((own) => () => lh.enqueue(task, 1, own)),
    ]
    for (const call of calls) {
      assert.equal(await codeOf(call), 'INVALID_OPTION', `${index}: ${call}`)
    }
  }
  assert.deepEqual(names, [])
  assert.equal(await count(db, 'from leasehold.jobs'), 0)
})

test('names that look like SQL, hold quotes or emoji are names like any other', async (t) => {
  const { lh, db, worker } = await scene(t)
  const odd = [
    `it's "quoted"`,
    '"; drop table leasehold.job; --',
    '📬🏴‍☠️',
    '{a,b}',
    '\\',
    '$1',
    '%s',
    'null',
    '__proto__',
    'a\nb',
    ' ',
    'constructor',
  ]
  const kinds = odd.map((name) => kind<string>(name, { queue: `q ${name}` }))
  const inputs: unknown[] = []
  const busy = worker(
    kinds.map((one) =>
      handle(one, ({ input, metadata, partitionKey }) => void inputs.push([input, metadata, partitionKey])),
    ),
    { poll: '1m', label: odd[0]! },
  )
  await next(busy, 'wakeup')
  for (const [index, name] of odd.entries()) {
    const completed = next(busy, 'completed')
    const options = { metadata: { [`m ${name}`]: name }, partitionKey: name, idempotencyKey: name }
    const { jobId } = await lh.enqueue(kinds[index]!, name, options)
    await completed
    assert.deepEqual(inputs.at(-1), [name, { [`m ${name}`]: name }, name])
    const found = (await lh.get(jobId))!
    assert.deepEqual([found.kind, found.queue, found.idempotencyKey], [name, `q ${name}`, name])
    assert.equal((await lh.enqueue(kinds[index]!, name, { idempotencyKey: name })).outcome, 'existing')
  }
  assert.equal(await count(db, 'from leasehold.job'), 0)
})

/** Each handler runs as a job of its own; then an ordinary one has to complete. Returns the jobs, by name. */
async function survives(
  { lh, db, worker, log }: Scene,
  behaviours: Record<string, (job: { progress(note: unknown): Promise<void> }) => unknown>,
): Promise<Record<string, JobId>> {
  const unhandled: unknown[] = []
  const onUnhandled = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', onUnhandled)
  try {
    const busy = worker([
      handle(task, (job) => (job.input === 'plain' ? 'fine' : behaviours[job.input as string]!(job))),
    ])
    const problems = collect(busy, 'problem')
    const names = Object.keys(behaviours)
    const jobs = await lh.enqueueMany(
      task,
      names.map((input) => ({ input })),
    )
    const held = async () =>
      count(db, 'from leasehold.job where claim_id is not null or available_at <= leasehold.clock()')
    await until('every job has an outcome', async () => (await held()) === 0)
    const { jobId } = await lh.enqueue(task, 'plain')
    await untilStatus(db, jobId, 'completed')
    await busy.stop()
    await nothingHeld(db)
    assert.deepEqual([unhandled, problems, busy.tally.refused, busy.tally.released], [[], [], 0, 0])
    assert.deepEqual(
      log.filter(({ message }) => message.startsWith('no outcome of job')),
      [],
    )
    return Object.fromEntries(names.map((name, index) => [name, jobs[index]!.jobId]))
  } finally {
    process.off('unhandledRejection', onUnhandled)
  }
}

test('any value that a handler returns is recorded, and the job completed', async (t) => {
  const setting = await scene(t)
  const returns = Object.entries(UNSTORABLE).map(([what, value]) => [what, () => value()] as const)
  const jobs = await survives(setting, Object.fromEntries(returns))
  for (const [what, jobId] of Object.entries(jobs))
    assert.equal((await jobRow(setting.db, jobId)).status, 'completed', what)
  assert.equal((await jobRow(setting.db, jobs.NUL!)).result, 'a\ufffdb')
})

test('a result that cannot even be awaited is a failure', async (t) => {
  const setting = await scene(t)
  const jobs = await survives(setting, {
    'a proxy that throws': () => new Proxy({}, ALL_TRAPS),
    'a revoked proxy': revoked,
    // biome-ignore lint/suspicious/noThenProperty: tested here
    'a then that throws': () => ({ then: throwing }),
    // biome-ignore lint/suspicious/noThenProperty: tested here
    'a then that rejects': () => ({ then: (_: unknown, reject: (error: unknown) => void) => reject(LONE) }),
  })
  for (const [what, jobId] of Object.entries(jobs))
    assert.equal((await jobRow(setting.db, jobId)).label, 'retrying', what)
})

test('any progress note of a handler is recorded', async (t) => {
  const setting = await scene(t)
  const notes = Object.entries(UNSTORABLE).map(
    ([what, value]) => [what, (job: { progress(note: unknown): Promise<void> }) => job.progress(value())] as const,
  )
  const jobs = await survives(setting, Object.fromEntries(notes))
  for (const [what, jobId] of Object.entries(jobs))
    assert.equal((await jobRow(setting.db, jobId)).status, 'completed', what)
})

const unreadable = (name: string) => Object.defineProperty(new Error('x'), name, { get: throwing })
const causes = (depth: number) => {
  let error = new Error('first')
  for (let level = 0; level < depth; level++) error = new Error('next', { cause: error })
  return error
}
const selfCaused = () => {
  const error: Error & { cause?: unknown } = new Error('loop')
  error.cause = error
  return error
}

test('any value that a handler throws is recorded, and the job retried', async (t) => {
  const setting = await scene(t)
  const thrown: Record<string, () => unknown> = {
    ...UNSTORABLE,
    null: () => null,
    'an empty string': () => '',
    'a proxy that throws at every look': () => new Proxy({}, ALL_TRAPS),
    'a proxy of an error that throws at every look': () => new Proxy(new Error('x'), ALL_TRAPS),
    'a proxy that hides its prototype': () => new Proxy(new Error('x'), trap('getPrototypeOf')),
    'a bare revoked proxy': revoked,
    'an object without a prototype': () => Object.create(null),
    'a message with NUL': () => new Error('a\0b'),
    'a message with half a surrogate pair': () => new Error(`a${LONE}b`),
    'a message of ten megabytes': () => new Error('x'.repeat(10 * MB)),
    'a message that throws': () => unreadable('message'),
    'a name that throws': () => unreadable('name'),
    'a stack that throws': () => unreadable('stack'),
    'a cause that throws': () => unreadable('cause'),
    'a cause that is itself': selfCaused,
    'ten thousand causes': () => causes(10_000),
    'ten thousand errors at once': () =>
      new AggregateError(
        Array.from({ length: 10_000 }, () => selfCaused()),
        LONE,
      ),
    'a name that is SQL': () => Object.assign(new Error(`'; drop table leasehold.job; --`), { name: `"'\0📬` }),
    'a code that is an object': () => Object.assign(new Error('x'), { code: cyclic() }),
  }
  const throwers = Object.entries(thrown).map(
    ([what, value]) =>
      [
        what,
        () => {
          throw value()
        },
      ] as const,
  )
  const jobs = await survives(setting, Object.fromEntries(throwers))
  for (const [what, jobId] of Object.entries(jobs)) {
    const { status, label, attempts, last_error } = await jobRow(setting.db, jobId)
    assert.deepEqual([status, label, attempts], ['pending', 'retrying', 1], what)
    assert.equal(typeof (last_error as { message: unknown }).message, 'string', what)
  }
})

test('a steering error with an odd delay, or that cannot be read, is recorded all the same', async (t) => {
  const setting = await scene(t)
  const delays: unknown[] = [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    10n,
    'soon',
    {},
    Symbol('x'),
    null,
    undefined,
    { valueOf: throwing },
  ]
  const behaviours: Record<string, () => never> = {}
  const add = (what: string, error: object) => {
    behaviours[what] = () => {
      throw error
    }
  }
  for (const [index, delayMs] of delays.entries())
    add(`RetryAfter ${index}`, Object.assign(new RetryAfter('1h'), { delayMs }))
  add('RetryAfter that throws', Object.defineProperty(new RetryAfter('1h'), 'delayMs', { get: throwing }))
  add('Snooze of a BigInt', Object.assign(new Snooze('1h'), { delayMs: 3_600_000n }))
  add('Fatal that throws', Object.defineProperty(new Fatal('x'), 'message', { get: throwing }))
  const { 'Fatal that throws': fatal, ...jobs } = await survives(setting, behaviours)
  assert.equal((await jobRow(setting.db, fatal!)).status, 'dead_letter')
  // An invalid delay does not mean a retry at once, or for ever.
  for (const [what, jobId] of Object.entries(jobs))
    assert.equal((await jobRow(setting.db, jobId)).label, 'retrying', what)
})

test('an outcome that the server refuses in any form is left to the sweep, and delays no other', async (t) => {
  const { lh, db, worker } = await scene(t)
  await db.pool.query(`
    create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'not this one' using errcode = '22023'; end $$;
    create trigger refuse before insert on leasehold.archive for each row when (new.payload = '"poison"') execute function refuse();
    create trigger refuse before insert on leasehold.job_attempt for each row when (new.outcome = 'failed') execute function refuse()`)
  const busy = worker([handle(task, () => {})], { poll: 20 })
  const problem = next(busy, 'problem')
  const [poison] = await lh.enqueueMany(
    task,
    ['poison', 'a', 'b'].map((input) => ({ input })),
  )
  assert.match(String((await problem).error), new RegExp(`no outcome of job ${poison!.jobId} `))
  await until('the others are completed', () => busy.tally.completed === 2)
  await busy.stop()
  assert.equal((await jobRow(db, poison!.jobId)).status, 'processing')
  await db.pool.query('drop trigger refuse on leasehold.archive')
  await db.clock.advance('1 hour')
  assert.equal((await lh.drain([handle(task, () => {})])).completed, 1, 'nobody ever finds it again')
})
