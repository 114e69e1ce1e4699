// A kind is checked when it is declared: by the compiler where possible, and when the module is loaded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { InvalidInputError } from '../../src/core/errors.ts'
import { type Kind, type KindOptions, kind } from '../../src/core/kind.ts'
import { parseInput, type Schema } from '../../src/core/schema.ts'
import { handle, type Leasehold } from '../../src/index.ts'

test('a kind has defaults, and cannot be changed afterwards', () => {
  const { returns, ...mail } = kind('mail')
  assert.deepEqual(mail, {
    name: 'mail',
    queue: 'mail',
    ordered: false,
    priority: 5,
    maxAttempts: 5,
    backoff: { firstMs: 1_000, maxMs: 3_600_000 },
    timeoutMs: 3_600_000,
    keepMs: 604_800_000,
    keepKeyMs: 86_400_000,
    schema: undefined,
  })
  assert.throws(() => Object.assign(kind('mail'), { queue: 'other' }), TypeError)
})

test('kind() keeps every option', () => {
  const options = {
    queue: 'slow',
    priority: 0,
    maxAttempts: 1,
    backoff: { first: '1m' },
    timeout: '2h',
    keepKey: 0,
  } as const
  const { queue, priority, maxAttempts, backoff, timeoutMs, keepMs, keepKeyMs } = kind('x', { ...options, keep: false })
  assert.deepEqual([queue, priority, maxAttempts, timeoutMs, keepMs, keepKeyMs], ['slow', 0, 1, 7_200_000, false, 0])
  assert.deepEqual(backoff, { firstMs: 60_000, maxMs: 3_600_000 })
})

test('an invalid option is refused by kind(), with its name', () => {
  const bad: [string, object][] = [
    ['kind("x").priority', { priority: 10 }],
    ['kind("x").priority', { priority: 1.5 }],
    ['kind("x").priority', { priority: '5' }],
    ['kind("x").maxAttempts', { maxAttempts: 0 }],
    ['kind("x").maxAttempts', { maxAttempts: 32_768 }],
    ['kind("x").queue', { queue: '' }],
    ['kind("x").queue', { queue: 'ä'.repeat(101) }],
    ['kind("x").timeout', { timeout: 0 }],
    ['kind("x").timeout', { timeout: 'soon' }],
    ['kind("x").keep', { keep: true }],
    ['kind("x").keep', { keep: '-1s' }],
    ['kind("x").keepKey', { keepKey: false }],
    ['kind("x").backoff', { backoff: 'exponential' }],
    ['kind("x").backoff.frist', { backoff: { frist: '1s' } }],
    ['kind("x").backoff.first', { backoff: { first: '1 s' } }],
    ['kind("x").input', { input: z.object }],
    ['kind("x").input', { input: { type: 'object' } }],
    ['kind("x").input', { input: null }],
    ['kind("x").retries', { retries: 3 }],
  ]
  for (const [option, options] of bad) {
    assert.throws(
      () => kind('x', options as KindOptions as never),
      { code: 'INVALID_OPTION', option },
      JSON.stringify(options),
    )
  }
  for (const name of ['', 'x'.repeat(201), 'a\0', '\ud800', undefined, null, 7, {}]) {
    assert.throws(() => kind(name as string), { code: 'INVALID_OPTION', option: 'name' })
  }
})

/** A Standard Schema by hand: even numbers, halved. Async if asked to be. */
function halved(isAsync: boolean): Schema<number, number> {
  const validate = (value: unknown) =>
    typeof value === 'number' && value % 2 === 0
      ? { value: value / 2 }
      : { issues: [{ message: 'must be even', path: ['a', { key: 'b' }, 0, Symbol('c')] }, { message: 'at all' }] }
  return {
    '~standard': { version: 1, vendor: 'us', validate: isAsync ? async (value) => validate(value) : validate },
  }
}

for (const isAsync of [false, true]) {
  test(`any Standard Schema is accepted, ${isAsync ? 'async' : 'sync'}`, async () => {
    assert.equal(await parseInput('half', halved(isAsync), 8), 4)
    await assert.rejects(parseInput('half', halved(isAsync), 7), (error: InvalidInputError) => {
      assert.ok(error instanceof InvalidInputError)
      assert.deepEqual(error.issues, [
        { path: 'a.b.0.Symbol(c)', message: 'must be even' },
        { path: '', message: 'at all' },
      ])
      assert.equal(error.message, 'The input does not fit the schema of half. a.b.0.Symbol(c): must be even; at all')
      return true
    })
  })
}

test('an error thrown by a schema is passed on, and is not an InvalidInputError', async () => {
  const broken = { '~standard': { version: 1, vendor: 'us', validate: () => assert.fail('lookup failed') } } as Schema
  await assert.rejects(parseInput('x', broken, 1), /lookup failed/)
  const lookup = async () => Promise.reject(new RangeError('no connection'))
  const rejecting = { '~standard': { version: 1, vendor: 'us', validate: lookup } } as Schema
  await assert.rejects(parseInput('x', rejecting, 'a'), RangeError)
})

// Never called: only the compiler is tested here.
async function types(lh: Leasehold): Promise<void> {
  const mail = kind<{ to: string }>('mail')
  await lh.enqueue(mail, { to: 'ada' })
  // @ts-expect-error: something is missing
  await lh.enqueue(mail, {})
  // @ts-expect-error: of another type
  await lh.enqueue(mail, { to: 7 })
  // @ts-expect-error: misspelt
  await lh.enqueue(mail, { two: 'ada' })
  // @ts-expect-error: one too many
  await lh.enqueue(mail, { to: 'ada', cc: 'bob' })
  // @ts-expect-error: no input
  await lh.enqueue(mail)
  // @ts-expect-error: an unknown option
  await lh.enqueue(mail, { to: 'ada' }, { dealy: '1s' })
  // @ts-expect-error: bare seconds
  await lh.enqueue(mail, { to: 'ada' }, { delay: '30' })
  await lh.enqueueMany(mail, [{ input: { to: 'ada' }, delay: '1s' }])
  // @ts-expect-error: the second one is wrong
  await lh.enqueueMany(mail, [{ input: { to: 'ada' } }, { input: {} }])
  // @ts-expect-error: a transaction is for all of them
  await lh.enqueueMany(mail, [{ input: { to: 'ada' }, tx: null }])

  const at = kind('at', {
    input: z.object({ at: z.iso.datetime().transform((text) => new Date(text)), n: z.number().default(1) }),
  })
  await lh.enqueue(at, { at: '2026-01-01T00:00:00Z' })
  // @ts-expect-error: the handler's input is parsed, not the enqueued one
  await lh.enqueue(at, { at: new Date(), n: 1 })
  const both: Kind<{ at: string; n?: number | undefined }, { at: Date; n: number }> = at
  handle(at, ({ input }) => input.at.getTime() + input.n)
  // @ts-expect-error: parsed, it is a Date
  handle(at, ({ input }) => input.at.length)
  // @ts-expect-error: not every kind has this
  handle(mail, ({ input }) => input.subject)
  const [job] = await lh.claim(at)
  const date: Date = job!.input.at
  // @ts-expect-error: by hand as well
  const text: string = job!.input.at
  await lh.list({ kind: at })
  await lh.redrive({ kind: at })
  // @ts-expect-error: a name is no kind
  await lh.redrive({ kind: 'at' })
  // @ts-expect-error: no such status
  await lh.list({ status: 'done' })
  // Ids travel as text, through a URL or a table of the user's.
  await lh.get('17')
  const half = kind('half', { input: halved(true) })
  await lh.enqueue(half, 4)
  // @ts-expect-error: a hand-made schema has types, too
  await lh.enqueue(half, '4')
  void [both, date, text]
}

test('the compiler refuses a wrong input', () => {
  assert.equal(typeof types, 'function')
})
