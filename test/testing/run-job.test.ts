// leasehold/testing: a handler that is run with a fake job, without a database.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import {
  Cancel,
  EffectUnknownError,
  Fatal,
  handle,
  handleBatch,
  InvalidInputError,
  InvalidOptionError,
  kind,
  LeaseLostError,
  NotDone,
  RetryAfter,
  Snooze,
  ValueNotStorableError,
} from '../../src/index.ts'
import { runJob } from '../../src/testing/index.ts'
import { handleRuns, workflow } from '../../src/workflow/index.ts'

const greet = kind('greet', { input: z.object({ name: z.string(), times: z.number().default(1) }), maxAttempts: 3 })
const plain = kind<null>('plain', { maxAttempts: 2 }).returns<number>()

test('the handler gets the parsed input, and its result is returned as JSON keeps it', async () => {
  const handler = handle(greet.returns<string[]>(), ({ input }) => Array(input.times).fill(`hello ${input.name}`))
  const run = await runJob(handler, { name: 'Ada' })
  assert.deepEqual(run, { outcome: 'completed', result: ['hello Ada'], progress: [], effects: {} })
  if (run.outcome === 'completed') run.result satisfies string[]
  const dated = handle(kind<null>('dated', {}), () => new Date(0))
  assert.deepEqual((await runJob(dated, null)).outcome === 'completed', true)
  const nothing = await runJob(
    handle(kind<null>('nothing', {}), () => {}),
    null,
  )
  assert.ok(nothing.outcome === 'completed' && nothing.result === null)
})

test('an input that enqueue() would refuse is refused, and the handler is not called', async () => {
  const called = () => assert.fail('it was called')
  const wrong = { name: 7 } as unknown as { name: string }
  await assert.rejects(runJob(handle(greet, called), wrong), InvalidInputError)
  await assert.rejects(runJob(handle(kind('any', {}), called), 'a\0b'), ValueNotStorableError)
  await assert.rejects(runJob(handle(kind('any', {}), called), 7n), ValueNotStorableError)
})

test('an error is an outcome, judged as a worker does', async () => {
  const throwing = (error: unknown) =>
    handle(plain, () => {
      throw error
    })
  const outcomeOf = async (error: unknown, attempt = 1) => {
    const { progress, effects, ...outcome } = await runJob(throwing(error), null, { attempt })
    return outcome
  }
  const error = new Error('down')
  const first = await outcomeOf(error)
  assert.ok(first.outcome === 'retrying' && first.error === error && first.delayMs >= 500)
  assert.deepEqual(await outcomeOf(error, 2), { outcome: 'dead_letter', error, reason: 'attempts_exhausted' })
  const fatal = new Fatal('no')
  assert.deepEqual(await outcomeOf(fatal), { outcome: 'dead_letter', error: fatal, reason: 'fatal' })
  const after = new RetryAfter('5m')
  assert.deepEqual(await outcomeOf(after), { outcome: 'retrying', error: after, delayMs: 300_000 })
  assert.deepEqual(await outcomeOf(new Snooze('1h')), { outcome: 'snoozed', delayMs: 3_600_000 })
  const cancel = new Cancel('no longer wanted')
  assert.deepEqual(await outcomeOf(cancel), { outcome: 'cancelled', error: cancel })
  const lost = new LeaseLostError({ jobId: '1', generation: 1 })
  assert.deepEqual(await outcomeOf(lost), { outcome: 'released' })
  const hostile = new Proxy(error, {
    getPrototypeOf: () => {
      throw new Error('not to be asked')
    },
  })
  assert.equal((await outcomeOf(hostile)).outcome, 'retrying')
})

test('the job has what a worker would give it', async () => {
  const seen: unknown[] = []
  const handler = handle(plain, (job) => {
    const { id, kind, queue, attempt, maxAttempts, partitionKey, metadata, enqueuedAt, signal } = job
    seen.push({ id, kind, queue, attempt, maxAttempts, partitionKey, metadata }, enqueuedAt, signal.aborted)
    return 1
  })
  await runJob(handler, null, { attempt: 2, partitionKey: 'k', metadata: { trace: 't' } })
  const [told, enqueuedAt, aborted] = seen
  assert.deepEqual(told, {
    id: '1',
    kind: 'plain',
    queue: 'plain',
    attempt: 2,
    maxAttempts: 2,
    partitionKey: 'k',
    metadata: { trace: 't' },
  })
  assert.ok(enqueuedAt instanceof Date && enqueuedAt < new Date() && aborted === false)
})

test('effects happen once, and are passed on to the next attempt', async () => {
  let charges = 0
  const keys = new Set<string>()
  const handler = handle(plain, async (job) => {
    await job.progress({ at: 'charge' })
    keys.add(job.effectKey('charge'))
    const [one, other] = await Promise.all([1, 2].map(() => job.once('charge', () => ++charges)))
    assert.equal(one, other)
    if (job.attempt === 1) throw new Error('down')
    return one!
  })
  const first = await runJob(handler, null)
  assert.deepEqual([first.outcome, first.effects, first.progress], ['retrying', { charge: 1 }, [{ at: 'charge' }]])
  const second = await runJob(handler, null, { attempt: 2, effects: first.effects })
  assert.ok(second.outcome === 'completed' && second.result === 1)
  assert.deepEqual([charges, keys.size], [1, 1])
})

test('notes are kept as they were when they were made', async () => {
  const note = { page: 1 }
  const handler = handle(plain, async (job) => {
    await job.progress(note)
    note.page = 2
    await job.progress(note)
    await job.progress(new Date(0))
    await job.progress(undefined)
    return 1
  })
  const { progress } = await runJob(handler, null)
  assert.deepEqual(progress, [{ page: 1 }, { page: 2 }, '1970-01-01T00:00:00.000Z', null])
})

test('an effect that throws is unknown, unless it certainly did not happen or may be repeated', async () => {
  const failing = (error: unknown, options = {}) =>
    handle(plain, async (job) => {
      await job.once('__proto__', () => Promise.reject(error), options)
      return 1
    })
  const down = new Error('down')
  const unknown = await runJob(failing(down), null)
  assert.ok(unknown.outcome === 'dead_letter' && unknown.reason === 'effect_unknown')
  assert.ok(unknown.error instanceof EffectUnknownError && unknown.error.cause === down)
  for (const handler of [failing(new NotDone('busy', { cause: down })), failing(down, { ifUnknown: 'retry' })]) {
    const run = await runJob(handler, null)
    assert.ok(run.outcome === 'retrying' && run.error === down)
  }
})

test('an effect that begins itself again is refused, as by a worker', async () => {
  const run = await runJob(
    handle(plain, (job) => job.once('outer', () => job.once('inner', () => job.once('outer', () => 1)))),
    null,
  )
  assert.ok(run.outcome === 'dead_letter' && run.error instanceof EffectUnknownError)
  const inner = run.error.cause
  assert.ok(inner instanceof EffectUnknownError && inner.cause instanceof InvalidOptionError)
  assert.match(inner.cause.message, /once\("outer"\) was called inside its own effect/)
})

test('a signal that aborts cancels the job', async () => {
  const abort = new AbortController()
  const handler = handle(plain, async ({ signal }) => {
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve))
    abort.abort()
    await aborted
    throw signal.reason
  })
  const { outcome } = await runJob(handler, null, { signal: abort.signal })
  assert.equal(outcome, 'cancelled')
  const before = handle(plain, ({ signal }) => signal.throwIfAborted() ?? 1)
  assert.equal((await runJob(before, null, { signal: AbortSignal.abort() })).outcome, 'cancelled')
})

test('complete(tx) completes with its result, and a batch handler decides for its job', async () => {
  const tx = async () => []
  const within = await runJob(
    handle(plain, async (job) => {
      await job.assertLease(tx)
      await job.complete(tx, 7)
      return 8
    }),
    null,
  )
  assert.ok(within.outcome === 'completed' && within.result === 7)
  const batch = (decide: (job: { succeed(n: number): void; fail(error: unknown): void }) => void) =>
    runJob(
      handleBatch(plain, (jobs) => decide(jobs[0]!)),
      null,
    )
  const succeeded = await batch((job) => job.succeed(3))
  assert.ok(succeeded.outcome === 'completed' && succeeded.result === 3)
  assert.equal((await batch((job) => job.fail(new Fatal('no')))).outcome, 'dead_letter')
})

test('what a batch handler decided counts, also if it throws later, and a value that it returns is an error', async () => {
  const down = new Error('down')
  type Decides = readonly { succeed(n: number): void; fail(error: unknown): void }[]
  const runBatch = (batch: (jobs: Decides) => void) => runJob(handleBatch(plain, batch), null)
  const succeeded = await runBatch((jobs) => {
    jobs[0]!.succeed(3)
    throw new Error('too late')
  })
  assert.ok(succeeded.outcome === 'completed' && succeeded.result === 3)
  const failed = await runBatch((jobs) => {
    jobs[0]!.fail(down)
    throw new Fatal('too late')
  })
  assert.ok(failed.outcome === 'retrying' && failed.error === down)
  const returned = await runBatch((async () => [3]) as never)
  assert.ok(returned.outcome === 'retrying' && /returned a value/.test(String(returned.error)))
})

test('wrong arguments are refused', async () => {
  const handler = handle(plain, () => 1)
  await assert.rejects(runJob(handler, null, { attempt: 3 }), InvalidOptionError)
  await assert.rejects(runJob(handler, null, { atempt: 1 } as object), /did you mean attempt\?/)
  await assert.rejects(runJob(plain as never, null), /make the handler with handle/)
  const flow = workflow<null, void>('flow', {}, async () => {})
  await assert.rejects(runJob(handleRuns(flow), null), /a run of a workflow needs a database/)
  const named = handle(greet, () => {})
  // @ts-expect-error The input has the type of its kind.
  await assert.rejects(runJob(named, { nom: 'Ada' }), InvalidInputError)
})
