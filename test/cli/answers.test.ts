// What an operator reads: answers that name the cause and the next step.
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { command } from '../support/command.ts'
import { next, type Scene, scene } from '../support/worker.ts'

const mail = kind<unknown>('mail', { maxAttempts: 1 })
const refuse = handle(mail, () => {
  throw new Fatal('no such address')
})

test('cancel asks for --yes, and tells an unknown job from one that has ended', async (t) => {
  const { db, lh } = await scene(t)
  const { jobId } = await lh.enqueue(mail, {})
  const asked = await command(db.url, 'cancel', jobId)
  assert.equal(asked.code, 2)
  assert.match(asked.err, new RegExp(`this would cancel job ${jobId} in database \\S+ on .*; repeat it with --yes`))
  assert.equal((await lh.get(jobId))!.status, 'pending')
  const done = await command(db.url, 'cancel', jobId, '--yes')
  assert.deepEqual([done.code, done.out], [0, `Job ${jobId}: it is cancelled.\n`])
  const again = await command(db.url, 'cancel', jobId, '--yes')
  assert.equal(again.code, 1)
  assert.match(again.err, /has ended, and cannot be cancelled\. It was cancelled at /)
  const unknown = await command(db.url, 'cancel', '999', '--yes')
  assert.equal(unknown.code, 2)
  assert.match(unknown.err, /no job 999 in database/)
})

test('long values are cut in messages, which end with what to do', async (t) => {
  const { db } = await scene(t)
  const long = 'x'.repeat(10_000)
  const all = [[long], ['ls', '--queue', long], ['show', long], ['pause', '--kind', long], ['status', '--schema', long]]
  for (const argv of [
    ...all,
    ['ls', `--${long}`],
    ['ls', '--limit', long],
    ['work', long],
    ['redrive', '--reason', long],
  ]) {
    const { code, err } = await command(db.url, ...argv)
    assert.equal(code, 2)
    assert.ok(err.length < 500, `${err.length} characters`)
  }
})

test('a reason that does not exist is refused, and the ones that do are listed', async (t) => {
  const { db } = await scene(t)
  const { code, err } = await command(db.url, 'redrive', '--reason', 'fatl', '--preview')
  assert.deepEqual([code, err], [2, 'leasehold: there is no reason "fatl"; did you mean fatal?\n'])
  assert.match((await command(db.url, 'redrive', '--reason', 'nix')).err, /known are attempts_exhausted, fatal, /)
})

test('redrive reports when more dead letters fit than its limit', async (t) => {
  const { db, lh } = await scene(t)
  for (let n = 0; n < 3; n++) await lh.enqueue(mail, {})
  await lh.drain([refuse])
  const some = await command(db.url, 'redrive', '--limit', '2', '--preview')
  assert.match(some.err, /more than 2 dead letters fit: these are the oldest; --limit takes more/)
  assert.equal((await command(db.url, 'redrive', '--limit', '3', '--preview')).err, '')
  const slow = await command(db.url, 'redrive', '--rate', '1')
  assert.match(slow.err, /redrive 3 dead letters, in about 3s, in database/)
})

test('a server that refuses TLS, and any other failure to connect, is one line', async (t) => {
  const server = createServer((socket) => socket.once('data', () => socket.end('N')))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  for (const argv of [['status'], ['migrate'], ['migrate', '--check']]) {
    const { code, err } = await command(`postgres://127.0.0.1:${port}/x?sslmode=verify-full`, ...argv)
    assert.equal(code, 2)
    assert.match(err, /^leasehold: cannot reach the database: .*SSL.*; check --url[^\n]*\n$/)
  }
})

test('a replica, and a server that goes down meanwhile, are one line', async (t) => {
  const { db, lh } = await scene(t)
  await lh.configure([mail])
  const replica = new URL(db.url)
  replica.searchParams.set('options', '-c default_transaction_read_only=on')
  const refused = await command(replica.href, 'pause', '--kind', 'mail')
  assert.equal(refused.code, 2)
  assert.match(refused.err, /^leasehold: the database refused: .* in a read-only transaction; check --url[^\n]*\n$/)

  const session = await db.connect()
  await session.query('begin')
  await session.query('lock leasehold.dead_letter in access exclusive mode')
  const asked = command(db.url, 'redrive', '--preview')
  const end = `select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  while ((await db.pool.query(end)).rows.length === 0);
  const { code, err } = await asked
  await session.query('rollback')
  assert.equal(code, 2)
  assert.match(err, /^leasehold: cannot reach the database: [^\n]*; check --url[^\n]*\n$/)
})

test('an empty database is named, with the command that fills it', async (t) => {
  const { db } = await scene(t)
  const empty = await command(db.url, 'status', '--schema', 'other')
  assert.match(
    empty.err,
    /Schema "other" has no tables of Leasehold, .*, in database \S+ on \S+; run `leasehold migrate`/,
  )
  const checked = await command(db.url, 'migrate', '--check', '--schema', 'other')
  assert.match(checked.out, /run `leasehold migrate`/)
  const printed = JSON.parse((await command(undefined, 'migrate', '--print', '--json')).out)
  assert.match(printed.sql, /^create schema if not exists "leasehold"/)
})

test('queues lists the queue of an idle worker, leaves out columns without jobs, and counts nothing that cannot be', async (t) => {
  const { db, lh, worker } = await scene(t)
  assert.match((await command(db.url, 'queues')).out, /^No queues: /)
  const completed = next(worker([handle(mail, () => {})]), 'completed')
  await lh.enqueue(mail, {})
  await completed
  const idle = await command(db.url, 'queues')
  assert.match(idle.out, /^queue {2}ready {2}oldest {2}processing {2}done\/s {2}failed\/s {2}dead\nmail /)
  for (let n = 0; n < 3; n++) await lh.enqueue(kind('other'), {})
  const [counted] = await lh.stats({ queue: 'other', countTo: 2 })
  assert.deepEqual(
    [counted!.ready, counted!.paused],
    [
      { jobs: 2, atLeast: true },
      { jobs: 0, atLeast: false },
    ],
  )
})

test('one dead letter is one', async (t) => {
  const { db, lh } = await scene(t)
  await lh.enqueue(mail, {})
  await lh.drain([refuse])
  assert.match((await command(db.url, 'status')).out, /1 job of queue mail became a dead letter in the last 5 minutes/)
})

test('a job of a configured kind keeps its idempotency key for as long as the kind says', async (t) => {
  const { db, lh } = await scene(t)
  await lh.configure([kind('report', { keepKey: '3d', maxAttempts: 2 })])
  assert.equal((await command(db.url, 'enqueue', 'report', '{}', '--idempotency-key', 'a')).code, 0)
  const { rows } = await db.pool.query(
    "select k.keep_for = interval '3 days' as kept, j.max_attempts from leasehold.idempotency_key k, leasehold.job j",
  )
  assert.deepEqual(rows, [{ kept: true, max_attempts: 2 }])
})

test('a kind that is not configured is stored where its workers look for it', async (t) => {
  const { db } = await scene(t)
  await running(db, 'pay', '{pay}', '{shared}')
  await running(db, 'both', '{refund}', '{one,two}')
  const { code, out } = await command(db.url, 'enqueue', 'pay', '{}', '--json')
  assert.equal(code, 0)
  const { rows } = await db.pool.query('select queue from leasehold.job where id = $1', [JSON.parse(out).jobId])
  assert.deepEqual(rows, [{ queue: 'shared' }])
  const unclear = await command(db.url, 'enqueue', 'refund', '{}')
  assert.deepEqual([unclear.code, unclear.out], [2, ''])
  assert.match(unclear.err, /kind "refund" is not configured, and no running worker tells its queue; pass --queue/)
  assert.equal((await command(db.url, 'enqueue', 'refund', '{}', '--queue', 'two')).code, 0)
})

test('status names a kind without a worker, also of suspects and behind the jobs of a paused kind', async (t) => {
  const { db, lh } = await scene(t)
  const [paused, behind] = [kind('paused', { queue: 'shared' }), kind('behind', { queue: 'shared' })]
  await lh.enqueue(kind('crashed'), {})
  await db.pool.query('update leasehold.job set crashes = 1')
  await lh.enqueueMany(
    paused,
    Array.from({ length: 500 }, (_, input) => ({ input })),
  )
  await lh.enqueue(behind, {})
  await lh.pause({ kind: paused })
  await db.clock.advance('10 s')
  await running(db, 'w', '{paused}', '{shared}')
  const { trouble } = JSON.parse((await command(db.url, 'status', '--json')).out)
  const kinds = trouble.flatMap(({ sentence }: { sentence: string }) => /handles kind (\w+)/.exec(sentence)?.[1] ?? [])
  assert.deepEqual(kinds, ['crashed', 'behind'])
})

test('a kind can be paused while all its workers are down', async (t) => {
  const { db } = await scene(t)
  await running(db, 'pay', '{pay}', '{shared}')
  await db.pool.query('update leasehold.worker set stopped_at = leasehold.clock()')
  const { code, out } = await command(db.url, 'pause', '--kind', 'pay')
  assert.equal(code, 0)
  assert.match(out, /^Kind "pay": paused, in database /)
  assert.match((await command(db.url, 'pause', '--kind', 'pya')).err, /there is no kind "pya"; .*pay/)
  assert.match((await command(db.url, 'enqueue', 'pay', '{}')).err, /no running worker tells its queue; pass --queue/)
})

test('the next step can be run as it is printed, also with a name that begins with a hyphen', async (t) => {
  const { db, lh } = await scene(t)
  const { jobId } = await lh.enqueue(kind('-x'), {})
  await lh.pause({ queue: '-x' })
  for (const argv of [['status'], ['why', jobId]]) {
    assert.match((await command(db.url, ...argv)).out, /→ leasehold resume --queue=-x\n/)
  }
  assert.match((await command(db.url, 'resume', '--queue=-x')).out, /^Queue "-x": resumed/)
})

test('status names a queue on the ring in which a ready job has a key and no worker has a seat', async (t) => {
  const { db, lh } = await scene(t)
  const cart = kind('cart')
  await lh.configure([cart, queue('cart', { ring: true }), queue('idle', { ring: true })])
  await running(db, 'w', '{cart}', '{cart}')
  await lh.enqueue(cart, {}, { partitionKey: 'cart 7', delay: '1h' })
  await lh.enqueue(cart, {}, { partitionKey: 'cart 7' })
  assert.equal((await command(db.url, 'status')).code, 0, 'workers that start have seats in a moment')
  await db.clock.advance('10 s')
  await db.pool.query('update leasehold.worker set last_seen_at = leasehold.clock()')
  const { code, out } = await command(db.url, 'status', '--json')
  assert.equal(code, 1)
  const { sentence, ...rest } = JSON.parse(out).trouble[0]
  assert.match(sentence, /^No worker has a seat for queue cart, which is on the ring, and jobs with keys wait in it$/)
  assert.deepEqual(rest, {
    what: 'queue_without_owner',
    next: 'leasehold workers --queue cart',
    runbook: 'docs/runbooks/stuck-rows.md',
  })
  assert.equal(JSON.parse(out).trouble.length, 1)
  assert.doesNotMatch((await command(db.url, 'workers')).out, /seat/)
  await db.pool.query(`
    insert into leasehold.seat (number, worker_id, label, weight, queues, epoch, taken_at, expires_at)
    select 3, id, label, 1, queues, 0, now(), leasehold.clock() + interval '1 hour' from leasehold.worker`)
  assert.equal((await command(db.url, 'status')).code, 0)
  assert.match((await command(db.url, 'workers')).out, /^worker +state +seat .*\nw +active +3 /)
  const seats = JSON.parse((await command(db.url, 'workers', '--json')).out).map(({ seat }: { seat: number }) => seat)
  assert.deepEqual(seats, [3])
})

async function running({ pool }: Scene['db'], label: string, kinds: string, queues: string): Promise<void> {
  await pool.query(
    `insert into leasehold.worker (id, label, version, kinds, queues, started_at, last_seen_at)
     values (gen_random_uuid(), $1, '0', $2, $3, leasehold.clock(), leasehold.clock())`,
    [label, kinds, queues],
  )
}

test('a statement that waits too long for a lock is one line about locks', async (t) => {
  const { db } = await scene(t)
  const impatient = new URL(db.url)
  impatient.searchParams.set('options', '-c lock_timeout=1ms')
  const session = await db.connect()
  await session.query('begin')
  await session.query('lock leasehold.dead_letter in access exclusive mode')
  const { code, err } = await command(impatient.href, 'redrive', '--preview')
  await session.query('rollback')
  assert.equal(code, 2)
  assert.match(err, /^leasehold: the database took too long: [^\n]*; look for locks and load[^\n]*\n$/)
})

test('status does not report its own transaction', async (t) => {
  const { db } = await scene(t)
  const { code, out } = await command(db.url, 'status', '--json', '--open-transaction', '0s')
  assert.deepEqual([code, JSON.parse(out).trouble], [0, []])
})
