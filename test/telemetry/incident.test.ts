// An incident with many causes at once. Each is found by `leasehold status`, explained by `leasehold why`, and ended by the
// runbook that status names, with the commands and the SQL of that page.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Fatal, handle, kind, queue } from '../../src/index.ts'
import { command } from '../support/command.ts'
import { startWorker } from '../support/processes.ts'
import { type Filling, Runbook } from '../support/runbook.ts'
import { type Scene, scene } from '../support/worker.ts'
import { workOf } from '../worker/programs/jobs.ts'

const poison = kind<number>('import', { maxAttempts: 2, backoff: { first: '30m', max: '30m' } })
const resize = kind<number>('resize')
const audit = kind<number>('audit')
const mail = kind<number>('mail')
const order = kind<string>('order', { queue: 'orders' })
const report = workOf('report')

const broken = [
  handle(poison, ({ input }) => {
    throw input === 1 ? new Error('column "sku" is missing') : new Fatal('not a CSV file')
  }),
  handle(order, ({ input }) => {
    if (input === 'unknown product') throw new Fatal(input)
  }),
]
const repaired = [poison, resize, audit, mail, order, report].map((each) => handle(each as typeof poison, () => {}))

/** The clock of the database has moved on by seven minutes since the first of it. */
async function incident(t: TestContext) {
  const { db, lh } = await scene(t)
  await lh.configure([poison, resize, audit, mail, order, report, queue('orders', { ordered: true })])

  const unsent = (await lh.enqueue(mail, 1)).jobId
  await lh.pause({ queue: 'mail' }, { by: 'ada' })
  for (let n = 0; n < 20; n++) await lh.enqueue(resize, n)
  const unhandled = (await lh.enqueue(audit, 1)).jobId
  await db.clock.advance('6m')

  const retried = (await lh.enqueue(poison, 1)).jobId
  const refused = (await lh.enqueue(poison, 2)).jobId
  await lh.enqueue(poison, 3)
  const front = (await lh.enqueue(order, 'unknown product', { partitionKey: 'order:7' })).jobId
  const blocked = (await lh.enqueue(order, 'shipped', { partitionKey: 'order:7' })).jobId
  await lh.drain(broken)

  const held = (await lh.enqueue(report, { act: 'wait' })).jobId
  const worker = await startWorker(t, db.url, { kinds: ['report'] })
  await worker.prints('started')
  worker.kill('SIGKILL')
  await worker.ends()
  await db.clock.advance('1m')
  return { db, lh, jobs: { held, retried, refused, front, blocked, unsent, unhandled } }
}

async function troubles(db: Scene['db'], ...options: string[]) {
  const { out } = await command(db.url, 'status', '--json', ...options)
  return JSON.parse(out).trouble as { what: string; sentence: string; next: string; runbook: string }[]
}

test('an incident of seven causes is found, explained and ended by status, why and the runbooks', async (t) => {
  const { db, lh, jobs } = await incident(t)
  const session = await db.connect()
  await session.query(`set application_name = 'nightly-export'`)
  await session.query('begin')
  await session.query('select from leasehold.job')

  // The age of a transaction is by the clock of the server, which no test moves.
  const found = await troubles(db, '--open-transaction', '0s')
  const runbookOf = (what: string, sentence: RegExp) => {
    const one = found.find((each) => each.what === what && sentence.test(each.sentence))
    return new Runbook((one ?? assert.fail(`${what} is not among ${JSON.stringify(found, undefined, 1)}`)).runbook)
  }
  const confirms = async (page: Runbook, filling: Filling, ...signs: RegExp[]) => {
    const printed = await page.confirm(db, filling)
    for (const sign of signs) assert.match(printed, sign)
  }

  // A paused queue.
  const paused = runbookOf('paused', /queue mail is paused since .*, by ada/)
  await confirms(paused, { job: jobs.unsent }, /^Job \d+: The queue mail is paused/m, /"label":"paused"/)
  await paused.does(db, 'resume --queue', { queue: 'mail' })

  // A kind without a handler, and the backlog of another.
  const unhandled = runbookOf('kind_without_handler', /kind audit/)
  await confirms(unhandled, { job: jobs.unhandled }, /No live worker handles kind audit in queue audit/)
  const backlog = runbookOf('old_ready_job', /queue resize has waited for \d+m/)
  await confirms(
    backlog,
    { job: jobs.unhandled },
    /^resize +20 +\d+m/m,
    /"queue":"resize","kind":"resize","label":"ready"/,
  )
  assert.doesNotMatch(await backlog.does(db, 'workers', {}), / active /)

  // A poison kind: some of its jobs are dead letters, and others wait for a retry.
  const dead = runbookOf('dead_letters_growing', /queue import/)
  const poisoned = new Runbook('docs/runbooks/poison-kind.md')
  await confirms(poisoned, { job: jobs.retried }, /attempt 2 of 2, until .*"sku" is missing/, /"kind":"import"/)
  await poisoned.does(db, 'pause --kind', { kind: 'import' })
  await confirms(dead, { job: jobs.refused }, /2 +import +import +fatal/, /not a CSV file/)

  // A key that a dead letter blocks.
  const hot = runbookOf('blocked_keys', /A dead letter blocks a key of queue orders/)
  await confirms(hot, { job: jobs.blocked }, new RegExp(`order:7 is blocked by the dead letter ${jobs.front}`))

  // A killed worker.
  const loss = runbookOf('dead_worker', /died: it was last seen at/)
  await confirms(loss, { job: jobs.held }, /The lease of worker \S+ expired at/, /"state":"dead"/)

  // A transaction that holds vacuum back.
  const long = runbookOf('held_transaction', /nightly-export/)
  await confirms(long, {}, /"application_name":"nightly-export","state":"idle in transaction"/)
  const { rows } = await session.query('select pg_backend_pid() as pid')
  session.on('error', () => {}) // Its connection ends.
  await db.pool.query('select pg_terminate_backend($1)', [rows[0].pid])

  // The handlers are repaired and deployed.
  await poisoned.does(db, 'resume --kind', { kind: 'import' })
  await hot.does(db, 'retry', { front: jobs.front })
  await dead.does(db, 'retry', { job: jobs.refused })
  await dead.does(db, 'redrive --kind', { kind: 'import' })
  await db.clock.advance('30m')
  await lh.drain(repaired)
  await lh.drain(repaired) // The order behind the dead letter.
  for (const id of Object.values(jobs)) assert.equal((await lh.why(id)).because, 'completed')
  // A death is reported for an hour.
  assert.deepEqual(
    new Set((await troubles(db, '--open-transaction', '1m')).map(({ what }) => what)),
    new Set(['dead_worker']),
  )
  await db.clock.advance('1h')
  const { code, out } = await command(db.url, 'status', '--open-transaction', '1m')
  assert.deepEqual([code, out.split('  ')[0]], [0, 'healthy'], out)
})
