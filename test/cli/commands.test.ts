import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { command } from '../support/command.ts'
import { scene } from '../support/worker.ts'

const HOSTILE = `'; drop table leasehold.job; -- " \u001b[2J\u001b]0;owned\u0007 ${'\u202e'}`
const mail = kind<unknown>('mail', { maxAttempts: 1 })
const refuse = handle(mail, () => {
  throw new Fatal('no such address: İzmir \u001b[31m')
})

test('without a command the help is printed, and every command has its own', async () => {
  const none = await command(undefined)
  assert.equal(none.code, 2)
  for (const name of ['status', 'queues', 'workers', 'top', 'ls', 'show', 'why', 'redrive', 'migrate', 'work']) {
    assert.match(none.out, new RegExp(`^  ${name}\\b`, 'm'))
    const own = await command(undefined, name, '--help')
    assert.equal(own.code, 0)
    assert.match(own.out, new RegExp(`^leasehold ${name}\\b`))
  }
  assert.match((await command(undefined, '--version')).out, /^\d+\.\d+\.\d+\n$/)
})

test('input that cannot be used is answered by one line that states what to do, and exit code 2', async (t) => {
  const { db } = await scene(t)
  const cases: [string[], RegExp][] = [
    [['sttus'], /did you mean status\?/],
    [['ls', '--quue', 'x'], /no option "--quue" of ls; did you mean --queue\?/],
    [['ls', '--queue'], /--help/],
    [['ls', '--json=1'], /--help/],
    [['ls', '-x'], /--help/],
    [['ls', 'extra'], /write: leasehold ls/],
    [['ls', '--limit', '-1'], /--help/],
    [['ls', '--limit=0'], /whole number from 1 to 1000, not "0"/],
    [['ls', '--status', 'dead'], /no status "dead"; known are pending/],
    [['ls', '--before', 'x'], /"x" is not a job id; `leasehold ls` lists them/],
    [['enqueue', 'mail', '1', '--delay', '-5s'], /argument is ambiguous; `leasehold enqueue --help`/],
    [['ls', '--queue', HOSTILE], /there is no queue/],
    [['ls', '--queue', 'a\0b'], /holds a NUL/],
    [['show', 'abc'], /"abc" is not a job id; `leasehold ls` lists them/],
    [['show', '99999999999999999999'], /is not a job id/],
    [['show', '1'], /no job 1 in database/],
    [['why', '1'], /no job 1 in database/],
    [['why', `1; ${HOSTILE}`], /is not a job id/],
    [['retry', '1'], /no job 1 in database/],
    [['cancel', '1'], /no job 1 in database/],
    [['cancel', '1', '2'], /cancel 2 jobs in database .*--yes/],
    [['pause'], /--queue <name>, or --kind <name>/],
    [['pause', '--queue', 'a', '--kind', 'b'], /--queue <name>, or --kind <name>/],
    [['pause', '--queue', HOSTILE], /there is no queue/],
    [['resume', '--kind', HOSTILE], /there is no kind/],
    [['redrive', '--rate', '0'], /--rate must be a whole number from 1/],
    [['redrive', '--kind', 'nix'], /there is no kind "nix"/],
    [['redrive', '--older-than', 'soon'], /a duration such as 30s/],
    [['workers', '--state', 'ded'], /did you mean dead\?/],
    [['queues', 'nix'], /there is no queue "nix"/],
    [['enqueue', 'mail', '{bad'], /not JSON/],
    [['enqueue', 'nix', '{}'], /there is no kind "nix"/],
    [['work', './nix.js'], /no module "\.\/nix\.js"/],
    [['configure', 'package.json'], /exports no kind|cannot be loaded/],
    [['status', '--schema', 'Robert"; drop'], /schema name/],
    [['status', '--url', 'nonsense'], /not a URL such as postgres:.*; check --url/],
    [['migrate', '--print', '--check'], /--print, or --check/],
    [['status', '--schema', 'other'], /no tables of Leasehold.*run `leasehold migrate`/],
  ]
  for (const [argv, expected] of cases) {
    const { code, out, err } = await command(db.url, ...argv)
    assert.match(err, expected, argv.join(' '))
    assert.equal(code, 2, argv.join(' '))
    assert.equal(out, '')
    assert.match(err, /^leasehold: [^\n]*\n$/)
    assert.doesNotMatch(err, /[\p{Cc}\p{Cf}](?!$)/u, argv.join(' '))
  }
})

test('no database, an unreachable one and an empty one are told apart', async (t) => {
  const none = await command(undefined, 'status')
  assert.equal(none.code, 2)
  assert.match(none.err, /no database given; pass --url/)
  const away = await command('postgres://127.0.0.1:1/x', 'status')
  assert.equal(away.code, 2)
  assert.match(away.err, /cannot reach the database/)
  assert.match((await command(undefined, 'status', '--url', 'nonsense:')).err, /database|URL/)
  const { db } = await scene(t)
  await db.pool.query('delete from leasehold.migration where version > 3')
  const old = await command(db.url, 'queues')
  assert.equal(old.code, 2)
  assert.match(old.err, /at level 3, this code needs .*leasehold migrate/)
  assert.equal((await command(db.url, 'migrate', '--check')).code, 1)
})

test('migrate makes a schema, prints it and checks it', async (t) => {
  const { db } = await scene(t)
  assert.equal((await command(db.url, 'migrate', '--check', '--schema', 'other')).code, 1)
  assert.match((await command(db.url, 'migrate', '--schema', 'other')).out, /Schema other is at level \d+, in database/)
  assert.equal((await command(db.url, 'migrate', '--check', '--schema', 'other')).code, 0)
  assert.match((await command(db.url, 'status', '--schema', 'other')).out, /, schema other\n/)
  assert.match((await command(undefined, 'migrate', '--print')).out, /^create schema if not exists "leasehold"/)
})

test('jobs are enqueued, listed and shown, and stored text cannot drive the terminal', async (t) => {
  const { db, lh } = await scene(t)
  await lh.configure([mail])
  const enqueued = await command(
    db.url,
    'enqueue',
    'mail',
    JSON.stringify({ text: HOSTILE }),
    '--json',
    '--key',
    HOSTILE,
  )
  assert.equal(enqueued.code, 0, enqueued.err)
  const { jobId } = JSON.parse(enqueued.out)
  await lh.drain([refuse])
  for (const argv of [
    ['ls'],
    ['show', jobId],
    ['why', jobId],
    ['queues'],
    ['status'],
    ['redrive', '--preview'],
    ['top'],
  ]) {
    for (const json of [[], ['--json']]) {
      const { code, out, err } = await command(db.url, ...argv, ...json)
      assert.ok(code === 0 || argv[0] === 'status', `${argv.join(' ')}: ${err}`)
      assert.doesNotMatch(out.replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u, argv.join(' '))
      if (json.length > 0) JSON.parse(out)
    }
  }
  const shown = JSON.parse((await command(db.url, 'show', jobId, '--json')).out)
  assert.equal(shown.input.text, HOSTILE)
  assert.equal(shown.why.because, 'dead_letter')
  assert.equal(shown.attempts.length, 1)
  const listed = await command(db.url, 'ls', '--queue', 'mail', '--status', 'dead_letter')
  assert.match(listed.out, new RegExp(`${jobId}  mail   mail  dead_letter`))
})

test('a job that is due beyond what a Date holds is shown', async (t) => {
  const { db } = await scene(t)
  const enqueue = `select job_id from leasehold.enqueue('mail', '{}', '{"available_at": "infinity"}')`
  const { rows } = await db.pool.query(enqueue)
  const { code, out } = await command(db.url, 'show', rows[0].job_id)
  assert.equal(code, 0)
  assert.match(out, /^available +an unknown time$/m)
})

test('redrive previews, asks for --yes, and filters by error, reason, kind and age', async (t) => {
  const { db, lh } = await scene(t)
  for (let n = 0; n < 3; n++) await lh.enqueue(mail, { n })
  await lh.drain([refuse])
  const count = async (...filter: string[]) => {
    const { out } = await command(db.url, 'redrive', '--preview', '--json', ...filter)
    return JSON.parse(out).reduce((sum: number, { letters }: { letters: number }) => sum + letters, 0)
  }
  assert.equal(await count('--error', 'SUCH address'), 3)
  assert.equal(await count('--error', 'İzmir'), 3, 'JavaScript lowers İ to two characters')
  assert.equal(await count('--error', "%' or true --"), 0)
  assert.equal(await count('--reason', 'expired'), 0)
  assert.equal(await count('--older-than', '1h'), 0)
  assert.equal(await count('--limit', '2'), 2)
  const asked = await command(db.url, 'redrive', '--queue', 'mail')
  assert.equal(asked.code, 2)
  assert.match(asked.err, /redrive 3 dead letters in database \S+ on .*; repeat it with --yes/)
  assert.equal(await count(), 3)
  const done = await command(db.url, 'redrive', '--queue', 'mail', '--rate', '10000', '--yes')
  assert.deepEqual([done.code, done.out], [0, 'Redriven: 3 of 3.\n'])
  const { rows } = await db.pool.query(`select distinct by from leasehold.operator_actions where action = 'redrive'`)
  assert.deepEqual(rows, [{ by: 'ada' }])
})

test('retry and cancel act on one job, and on many with --yes', async (t) => {
  const { db, lh } = await scene(t)
  const dead = (await lh.enqueue(mail, {})).jobId
  await lh.drain([refuse])
  assert.equal((await command(db.url, 'retry', dead)).out, `Job ${dead}: It is pending again.\n`)
  const again = await command(db.url, 'retry', dead)
  assert.equal(again.code, 1)
  assert.match(again.err, /Only dead letters are retried/)
  const other = (await lh.enqueue(mail, {})).jobId
  const both = await command(db.url, 'cancel', dead, other, '--yes', '--reason', 'test', '--json')
  assert.deepEqual(
    JSON.parse(both.out).map(({ outcome }: { outcome: string }) => outcome),
    ['cancelled', 'cancelled'],
  )
  assert.match(both.err, /cancel 2 jobs in database/)
})

test('pause and resume name a queue or a kind, and status reports the pause', async (t) => {
  const { db, lh } = await scene(t)
  await lh.configure([mail])
  assert.match((await command(db.url, 'pause', '--kind', 'mail')).out, /Kind "mail": paused, in database/)
  assert.match((await command(db.url, 'pause', '--kind', 'mail')).out, /already paused/)
  const status = await command(db.url, 'status')
  assert.equal(status.code, 1)
  assert.match(status.out, /The kind mail is paused since .*, by ada\n.*→ leasehold resume --kind mail/)
  assert.match((await command(db.url, 'resume', '--kind', 'mail')).out, /resumed/)
  assert.equal((await command(db.url, 'status')).code, 0)
})

test('work refuses options that a worker of the module would ignore', async (t) => {
  const { db } = await scene(t)
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-work-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'worker.mjs')
  writeFileSync(path, 'export default () => ({ run: async () => {} })')
  assert.equal((await command(db.url, 'work', path)).code, 0)
  const cases: [string[], string][] = [
    [['--drain'], '--drain needs'],
    [['--label', 'x'], '--label needs'],
    [['--concurrency', '5', '--drain'], '--concurrency, --drain need'],
  ]
  for (const [options, expected] of cases) {
    const { code, err } = await command(db.url, 'work', path, ...options)
    assert.equal(code, 2, options.join(' '))
    assert.ok(err.startsWith(`leasehold: ${expected} a list of handle(…), and the module "`), err)
    assert.match(
      err,
      / makes a Worker; return the list instead, or set concurrency and label where it makes the Worker\n$/,
    )
  }
})

test('status names every trouble of a seeded incident', async (t) => {
  const { db, lh } = await scene(t)
  const orders = kind('orders', { ordered: true, maxAttempts: 1 })
  await lh.configure([mail, orders, queue('orders', { ordered: true })])
  for (let n = 0; n < 2; n++) await lh.enqueue(orders, {}, { partitionKey: 'k' })
  const bad = handle(orders, () => {
    throw new Fatal('bad')
  })
  await lh.runOnce([bad], { concurrency: 1 })
  await lh.enqueue(mail, {})
  await db.pool.query(`update leasehold.job set available_at = available_at - interval '1 hour' where kind = 'mail'`)
  await lh.pause({ queue: 'orders' })
  await db.pool.query(
    `insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
     values (gen_random_uuid(), 'gone:1', '0', '{orders}', '{orders}', leasehold.clock() - interval '1 minute', leasehold.clock() - interval '30 s')`,
  )
  const session = await db.connect()
  await session.query('begin')
  await session.query('select 1')
  const { code, out } = await command(db.url, 'status', '--json', '--open-transaction', '0s')
  assert.equal(code, 1)
  const found = new Set(JSON.parse(out).trouble.map(({ what }: { what: string }) => what))
  assert.deepEqual([...found].sort(), [
    'blocked_keys',
    'dead_letters_growing',
    'dead_worker',
    'held_transaction',
    'kind_without_handler',
    'old_ready_job',
    'paused',
  ])
  await session.query('rollback')
})
