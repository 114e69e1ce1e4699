// The parts of an error that the default log prints: never a user's value, always the useful rest.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as errors from '../../src/core/errors.ts'
import { quotable, quotableOfChore, quotableOfRequest } from '../../src/core/log-redaction.ts'
import { SeatTakenError } from '../../src/ring/errors.ts'
import * as workflow from '../../src/workflow/errors.ts'
import { freshDatabase } from '../support/database.ts'

const SECRET = 'jane@example.com'

test('our own errors are printed without values', () => {
  const job = { jobId: '7', generation: 2 }
  const cases: [errors.LeaseholdError, string | RegExp][] = [
    [new errors.CancelRequestedError('7'), /^The cancellation of job 7/],
    [new errors.ConcurrentModificationError('open', [SECRET], []), ''],
    [new errors.DeadlineError('A statement', 30), 'A statement did not end within 30 ms'],
    [new errors.EffectUnknownError('7', `mail ${SECRET}`, '2026'), /^The effect "…" of job 7 was begun at 2026/],
    [new errors.EventConflictError('orders', SECRET), /^Event "…" of orders was received before with another body/],
    [
      new errors.IdempotencyConflictError([{ index: 0, idempotencyKey: SECRET, jobId: '7' }]),
      /^Another input was enqueued under the same idempotency key: "…" \(job 7\)/,
    ],
    [new errors.InvalidInputError('x', [{ path: 'order.3.id', message: SECRET }]), 'it does not fit at order.3.id'],
    [
      new errors.InvalidOptionError('statusTable("doc").set.x', 'no'),
      /^The option statusTable\("doc"\)\.set\.x .*: no$/,
    ],
    [new errors.InvalidOptionError('jobId', `"${SECRET}" is not an id`), /: "…" is not an id$/],
    [new errors.JobNotFoundError('7'), /^Job 7 not found/],
    [new errors.LeaseLostError(job), /^The lease on job 7/],
    [new errors.LockTimeoutError(SECRET, 5), ''],
    [new errors.NotSentError('q', [{ id: '7', refused: true, reason: `Denied: ${SECRET}` }]), 'not sent: 7 (Denied)'],
    [new errors.RolledBackError(), /^The transaction was rolled back/],
    [new workflow.RunFinishedError('checkout', SECRET), /^The run "…" of checkout has ended/],
    [new workflow.RunNotFoundError('checkout', SECRET), /^There is no run "…" of checkout/],
    [new SeatTakenError(3), /^seat 3 is taken/],
    [new workflow.StepFailedError(`charge ${SECRET}`, { message: SECRET }), 'Step "…" has failed'],
    [new workflow.WorkflowChangedError('checkout@1', ['charge']), /^A run of checkout@1 has recorded "charge"/],
    [new errors.SchemaError('Schema "leasehold" is missing here.'), 'Schema "leasehold" is missing here'],
    [new errors.StoppingError(), /^The worker is stopping/],
    [new errors.TimedOutError('The effect', 5), 'The effect took longer than 5 ms'],
    [new errors.TransactionConflictError(), /^Postgres aborted/],
    [
      new errors.ValueNotStorableError(`$["${SECRET}"]`, 'undefined has no JSON form'),
      /^The value at \$\["…"\] cannot/,
    ],
    [new errors.ValueNotStorableError('$.a', `reading it threw: ${SECRET}`), /: reading it threw$/],
  ]
  for (const [error, expected] of cases) {
    if (typeof expected === 'string') assert.equal(quotable(error), expected)
    else assert.match(quotable(error), expected)
    assert.ok(!quotable(error).includes('jane'), quotable(error))
  }
  assert.deepEqual([...new Set(cases.map(([error]) => error.code))].sort(), [...errors.ERROR_CODES].sort())
})

test('an invalid input is located by field names, never by keys that may be data', () => {
  const at = (...paths: string[]) =>
    quotable(
      new errors.InvalidInputError(
        'x',
        paths.map((path) => ({ path, message: SECRET })),
      ),
    )
  assert.equal(at('id', 'id', 'items.0.price'), 'it does not fit at id, items.0.price')
  assert.equal(at(`users.${SECRET}.age`, 'id'), 'it does not fit at id')
  assert.equal(at('accounts.4915112345678'), 'it does not fit')
  assert.equal(at(''), 'it does not fit')
  assert.equal(at('hunter2-Tr0ub4dor'), 'it does not fit')
  assert.equal(at('a', 'b', 'c', 'd', 'e', 'f', 'g'), 'it does not fit at a, b, c, d, e and 2 more')
})

test('errors of Postgres about itself are printed, errors that repeat data are not', async (t) => {
  const { pool } = await freshDatabase(t)
  await pool.query('create table person (id integer primary key, name text check (length(name) > 50))')
  await pool.query('insert into person values (1)')
  const fails = async (sql: string, values: unknown[] = []) => {
    const error = await pool.query(sql, values).then(
      () => assert.fail(sql),
      (thrown: unknown) => thrown,
    )
    return [quotable(error), quotableOfRequest(error)]
  }
  const quoted: [string, string][] = [
    ['select * from nowhere', 'relation "nowhere" does not exist'],
    ['select nothing from person', 'column "nothing" does not exist'],
    ['select nothing(1)', 'function nothing(integer) does not exist'],
    ['set role nobody_knows', ''],
    [`select '${SECRET}`, ''],
    [`select 1 ${SECRET}`, ''],
    [`do $$ begin raise '${SECRET}'; end $$`, ''],
  ]
  for (const [sql, expected] of quoted) assert.deepEqual(await fails(sql), [expected, expected], sql)
  for (const [sql, values] of [
    ['select $1::integer', [SECRET]],
    ['insert into person values ($1)', [1]],
    ['insert into person values (2, $1)', [SECRET]],
  ] as const) {
    assert.deepEqual(await fails(sql, [...values]), ['', ''], sql)
  }
})

test('pg’s connection errors are printed from any source', () => {
  for (const message of [
    'Connection terminated unexpectedly',
    'timeout exceeded when trying to connect',
    'Client has encountered a connection error and is not queryable',
  ]) {
    assert.equal(quotable(new Error(message)), message)
    assert.equal(quotable(new Error(`${message} for ${SECRET}`)), '')
  }
})

test('a socket’s address is printed for chores and requests, not for handlers', () => {
  const refused = (address: string) =>
    Object.assign(new Error(`connect ECONNREFUSED ${address}:5432`), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
      address,
      port: 5432,
    })
  const unknown = Object.assign(new Error(`getaddrinfo ENOTFOUND ${SECRET}`), {
    code: 'ENOTFOUND',
    syscall: 'getaddrinfo',
    hostname: 'db.internal',
  })
  const both = Object.assign(new AggregateError([refused('::1'), refused('127.0.0.1')], ''), { code: 'ECONNREFUSED' })
  for (const error of [refused('::1'), unknown, both]) assert.equal(quotable(error), '')
  assert.equal(quotableOfChore(refused('10.0.0.1')), 'connect ECONNREFUSED 10.0.0.1:5432')
  assert.equal(quotableOfChore(unknown), 'getaddrinfo ENOTFOUND db.internal')
  assert.equal(quotableOfRequest(refused('10.0.0.1')), 'connect ECONNREFUSED 10.0.0.1:5432')
  for (const quote of [quotableOfChore, quotableOfRequest]) {
    assert.equal(quote(both), 'connect ECONNREFUSED ::1:5432, connect ECONNREFUSED 127.0.0.1:5432')
  }
  const file = Object.assign(new Error(`ENOENT: no such file, open '${SECRET}'`), { code: 'ENOENT', syscall: 'open' })
  assert.equal(quotableOfChore(file), '')
})

test('errors of the SDK are printed, except a parser’s', () => {
  const denied = Object.assign(new Error('User arn:aws:iam::1:user/x is not authorized'), { name: 'AccessDenied' })
  assert.equal(quotableOfRequest(denied), denied.message)
  assert.equal(quotable(denied), '')
  assert.equal(quotableOfRequest(new Error('Region is missing')), 'Region is missing')
  const garbled = new SyntaxError(`Unexpected token 'j', "${SECRET}" is not valid JSON`)
  assert.equal(quotableOfRequest(garbled), '')
})

test('any other thrown value is not printed and causes no error', () => {
  const unreadable = new Proxy(new Error(SECRET), {
    get: () => {
      throw new Error(SECRET)
    },
  })
  const odd = [undefined, null, SECRET, 7, Symbol(SECRET), {}, [], { message: 7 }, unreadable, () => SECRET]
  for (const error of [...odd, new Error(SECRET), new TypeError(SECRET)]) {
    assert.equal(quotable(error), '')
    assert.equal(quotableOfChore(error), '')
  }
  for (const error of odd) assert.equal(quotableOfRequest(error), '')
  assert.equal(quotableOfRequest(new Error('one\ntwo')), 'one')
  assert.equal(quotableOfRequest(new Error('x'.repeat(10_000))).length, 400)
})
