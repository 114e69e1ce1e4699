// The default log, on stderr, holds no input, result, handler's message, password or connection string.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { z } from 'zod'
import type { ConnectionOptions } from '../../src/db/connection.ts'
import { Fatal, handle, kind, Leasehold } from '../../src/index.ts'
import { startFaultyProxy } from '../../tools/faulty-proxy.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { inTime, lastFirst, next, run, scene } from '../support/worker.ts'

const SECRET = 'hunter2-Tr0ub4dor'

/** Everything written to stderr by this process from now on. */
function stderrOf(t: TestContext): string[] {
  const written: string[] = []
  const { write } = process.stderr
  const isOfWakeUp = /^leasehold info: worker /
  process.stderr.write = ((text: string | Uint8Array) =>
    isOfWakeUp.test(String(text)) || written.push(String(text)) > 0) as typeof write
  t.after(() => {
    process.stderr.write = write
  })
  return written
}

/** Something was logged, without the secret. */
function holdsNoSecret(written: readonly string[], expected: RegExp): void {
  const text = written.join('')
  assert.match(text, expected)
  assert.ok(!text.includes(SECRET), text)
  for (const line of written) assert.match(line, /^leasehold (warn|error): .*\n$/)
}

/** A Leasehold with the default log. */
async function plain(t: TestContext, options: ConnectionOptions = {}) {
  const setting = await scene(t)
  const loud = new Leasehold({ connectionString: setting.db.url, ...options })
  setting.undo.after(() => loud.close())
  return { ...setting, loud }
}

test('a failing job and a dead letter are logged without input, result or message', async (t) => {
  const { loud, worker, db } = await plain(t)
  const written = stderrOf(t)
  const task = kind<string>('task', { maxAttempts: 2, backoff: { first: 0 } })
  const fails = handle(task, ({ input, attempt }) => {
    if (input === 'result') return SECRET
    throw Object.assign(attempt === 1 ? new Error(input) : new Fatal(input), { detail: SECRET })
  })
  const busy = worker([fails], { poll: 20 }, loud)
  const [dead, completed] = [next(busy, 'dead_letter'), next(busy, 'completed')]
  const { jobId } = await loud.enqueue(task, SECRET, { metadata: { SECRET }, idempotencyKey: SECRET })
  await loud.enqueue(task, 'result')
  await Promise.all([dead, completed])
  holdsNoSecret(written, new RegExp(`job ${jobId} \\(task\\) is a dead letter: fatal; see its last_error \\(Fatal\\)`))
  // It is where it belongs: with the job.
  assert.equal(((await jobRow(db, jobId)).last_error as { message: string }).message, SECRET)
})

test('an input that does not fit is logged without its value', async (t) => {
  const { loud, worker } = await plain(t)
  const written = stderrOf(t)
  const strict = kind('strict', { input: z.object({ password: z.number(), [SECRET]: z.string().optional() }) })
  const dead = next(worker([handle(strict, () => {})], {}, loud), 'dead_letter')
  await loud.enqueue(kind('strict'), { password: SECRET, [SECRET]: 7 })
  await dead
  holdsNoSecret(
    written,
    /is a dead letter: invalid_input; see its last_error: it does not fit at password \(InvalidInputError INVALID_INPUT\)/,
  )
  await assert.rejects(loud.enqueue(strict, { password: SECRET } as never), (error: Error) => {
    assert.ok(!error.message.includes(SECRET), error.message)
    return true
  })
})

test('an error whose name and code cannot be read is logged all the same', async (t) => {
  const { loud, worker } = await plain(t)
  const written = stderrOf(t)
  const task = kind<number>('task', { maxAttempts: 1 })
  const odd = Object.defineProperties(new Error(SECRET), {
    name: {
      get() {
        throw new Error(SECRET)
      },
    },
  })
  const busy = worker(
    [
      handle(task, () => {
        throw odd
      }),
    ],
    {},
    loud,
  )
  const dead = next(busy, 'dead_letter')
  await loud.enqueue(task, 1)
  await dead
  holdsNoSecret(written, /is a dead letter: attempts_exhausted/)
})

test('an error cannot write lines of its own into the log', async (t) => {
  const { loud, worker } = await plain(t)
  const written = stderrOf(t)
  const task = kind<number>('task\nleasehold error: a kind of my own', { maxAttempts: 1 })
  const forger = Object.assign(new Error('x'), { name: 'Forged\nleasehold error: all is lost', code: 'A\r\nB' })
  const busy = worker(
    [
      handle(task, () => {
        throw forger
      }),
    ],
    {},
    loud,
  )
  const dead = next(busy, 'dead_letter')
  await loud.enqueue(task, 1)
  await dead
  assert.equal(written.length, 1)
  assert.equal(written[0]!.split(/[\r\n]/).filter(Boolean).length, 1, JSON.stringify(written[0]))
})

test('a password that the server refuses, or a server that is not there, is not logged with its address', async (t) => {
  const { db } = await scene(t)
  const written = stderrOf(t)
  await db.pool.query(`create role stranger login password 'another'`)
  const url = new URL(db.url)
  url.username = 'stranger'
  url.password = SECRET
  url.port = '1'
  const task = kind<number>('task')
  for (const options of [{ connectionString: url.href }, { connectionString: db.url, listen: url.href }]) {
    const loud = new Leasehold(options)
    const busy = run(lastFirst(t), loud.worker([handle(task, () => {})], { signals: [] }))
    const { error, doing } = await next(busy, 'problem')
    assert.ok(!JSON.stringify([doing, error, String(error)]).includes(SECRET))
    await busy.stop({ grace: 0 })
    await loud.close()
  }
  holdsNoSecret(
    written,
    /trouble with the database: connecting; trying again: connect ECONNREFUSED [\d.:]+ \(\w*Error ECONNREFUSED\)/,
  )
})

test('a connection that is lost is logged without its address', async (t) => {
  const setting = await scene(t)
  const { hostname, port } = new URL(setting.db.url)
  const proxy = await startFaultyProxy({ host: hostname, port: Number(port) })
  setting.undo.after(() => proxy.stop())
  const url = new URL(proxy.url(setting.db.url))
  url.searchParams.set('application_name', SECRET)
  const written = stderrOf(t)
  const loud = new Leasehold({ connectionString: url.href })
  setting.undo.after(() => loud.close())
  const busy = setting.worker([handle(kind<number>('task'), () => {})], {}, loud)
  await next(busy, 'wakeup')
  await loud.list()
  const lost = next(busy, 'problem')
  proxy.cut()
  await lost
  await until('the idle connection of the pool is missed, too', () =>
    written.some((line) => line.includes('an idle connection')),
  )
  holdsNoSecret(written, /trouble with the database/)
})

test('an invalid address is refused without repeating it', async (t) => {
  stderrOf(t)
  const bad = [
    `postgres://user:${SECRET}@host:notaport/db`,
    SECRET,
    `postgres://user:${SECRET}@[::1/db`,
    { toString: () => SECRET },
    [SECRET],
    undefined,
    '',
  ]
  for (const address of bad as string[]) {
    for (const make of [
      () => new Leasehold({ connectionString: address }),
      () => new Leasehold({ connectionString: 'postgres://localhost/x', listen: address }),
    ]) {
      if (address === undefined && make.toString().includes('listen')) continue
      assert.throws(make, (error: Error & { code: string }) => {
        assert.equal(error.code, 'INVALID_OPTION', String(address))
        assert.ok(!`${error.stack}${JSON.stringify(error)}`.includes(SECRET), error.message)
        return true
      })
    }
  }
})

test('an address that parses but cannot be used is not repeated either', async (t) => {
  const written = stderrOf(t)
  const bad = [
    `postgres://user:${SECRET}%ZZ@127.0.0.1:1/db`,
    `http://user:${SECRET}@127.0.0.1:1/db`,
    `user:${SECRET} at host`,
    `/nowhere/${SECRET}`,
  ]
  for (const address of bad) {
    const loud = new Leasehold({ connectionString: address })
    const failed = await inTime(
      loud.enqueue(kind<number>('task'), 1).then(
        () => assert.fail('it was enqueued'),
        (error: unknown) => error,
      ),
      'no answer',
    )
    if (!address.startsWith('/')) assert.ok(!`${(failed as Error).stack}`.includes(SECRET), String(failed))
    await loud.close()
  }
  assert.ok(!written.join('').includes(SECRET))
})

test('a listener that throws is logged by its name only', async (t) => {
  const { loud, worker } = await plain(t)
  const written = stderrOf(t)
  const task = kind<number>('task')
  const busy = worker([handle(task, () => {})], {}, loud)
  busy.on('started', () => {
    throw new Error(SECRET)
  })
  busy.on('completed', async () => {
    throw new TypeError(SECRET)
  })
  const completed = next(busy, 'completed')
  await loud.enqueue(task, 1)
  await completed
  await until('both are logged', () => written.length === 2)
  holdsNoSecret(
    written,
    /a listener of "started" threw \(Error\)\nleasehold error: a listener of "completed" threw \(TypeError\)/,
  )
})
