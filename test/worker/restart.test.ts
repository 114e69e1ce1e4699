// The server restarts, becomes read-only, or runs out of connections, under load: workers report it, go on, and lose
// nothing. A server of this file's own, since no other test would survive what happens to it.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import pg from 'pg'
import { Leasehold } from '../../src/index.ts'
import { startPostgres } from '../../tools/postgres.ts'
import { startWorker, type WorkerProcess } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { work } from './programs/jobs.ts'

const CONNECTIONS = 30
const BATCH = 50
const BACKLOG = 200
// Commits must survive a crash of the server, but not one of the machine.
const server = await startPostgres({ settings: { fsync: 'off', max_connections: String(CONNECTIONS) } })
after(() => server.stop())

interface Load {
  readonly pool: pg.Pool
  readonly workers: WorkerProcess[]
  /** Waits until so many more jobs are completed. */
  completesMore(count: number): Promise<void>
  /** Ends the load, and checks all jobs. */
  everythingIsDoneOnce(): Promise<void>
}

/** Three workers, and a producer that sends each batch again until it is acknowledged. */
async function startLoad(t: TestContext, database: string): Promise<Load> {
  const url = new URL(server.url)
  url.pathname = database
  await once(server.url, `create database ${database}`)
  const leasehold = new Leasehold({ connectionString: url.href, log: () => {} })
  const pool = new pg.Pool({ connectionString: url.href, max: 1 })
  pool.on('error', () => {})
  await leasehold.migrate()
  const workers = await Promise.all([1, 2, 3].map(() => startWorker(t, url.href)))

  const acknowledged: string[] = []
  const completed = async () => {
    const answer = await pool.query('select count(*)::int as jobs from leasehold.archive').catch(() => undefined)
    return answer?.rows[0].jobs as number | undefined
  }
  let isOver = false
  const isWanted = async () => isOver || acknowledged.length - ((await completed()) ?? 0) <= BACKLOG
  const produce = async () => {
    for (let n = 0; !isOver; n++) {
      await until('more is wanted', isWanted)
      const keys = Array.from({ length: BATCH }, (_, index) => `${n}/${index}`)
      const jobs = keys.map((idempotencyKey) => ({ input: { act: 'nothing' } as const, idempotencyKey }))
      await until('a batch is acknowledged', () => leasehold.enqueueMany(work, jobs).catch(() => undefined))
      acknowledged.push(...keys)
    }
  }
  const produced = produce()
  t.after(async () => {
    isOver = true
    await produced.catch(() => {})
    await Promise.allSettled([leasehold.close(), pool.end()])
  })

  return {
    pool,
    workers,
    completesMore: async (count) => {
      const before = await until('the server answers', completed)
      await until(`${count} more are completed`, async () => ((await completed()) ?? 0) >= before + count)
    },
    everythingIsDoneOnce: async () => {
      isOver = true
      await produced
      await until('all are completed', async () => (await completed()) === acknowledged.length)
      for (const worker of workers) worker.kill('SIGTERM')
      for (const worker of workers) {
        assert.deepEqual(await worker.ends(), { code: 0, signal: null })
        assert.doesNotMatch(worker.stderr, /^ +at /m, 'a stack trace')
      }
      await isConsistent(pool, workers, acknowledged)
    },
  }
}

async function isConsistent(pool: pg.Pool, workers: readonly WorkerProcess[], keys: readonly string[]): Promise<void> {
  const { rows } = await pool.query(`
    select id, idempotency_key, status, lease_generation::float8 as generation, attempts, claimed_by
    from leasehold.jobs order by id`)
  assert.deepEqual(rows.map((row) => row.idempotency_key).sort(), [...keys].sort())
  assert.equal((await pool.query('select from leasehold.claim')).rowCount, 0)

  // Every claim that started a handler is one of its job's generations, and no two are the same.
  const started = workers.flatMap((worker) => worker.all('started'))
  const starts = new Set(started.map(({ jobId, generation }) => `${jobId}/${generation}`))
  assert.equal(starts.size, started.length)
  const generations = new Map(rows.map(({ id, generation }) => [id, generation]))
  for (const { jobId, generation } of started) assert.ok(generation! <= generations.get(jobId))
  for (const { id, status, generation, attempts, claimed_by } of rows) {
    assert.equal(status, 'completed')
    assert.ok(attempts >= 1 && attempts <= generation)
    assert.ok(starts.has(`${id}/${generation}`), `nobody started job ${id} in the generation that completed it`)
    assert.ok(workers.some((worker) => worker.id === claimed_by))
  }
  const reported = workers.flatMap((worker) => worker.all('completed').map(({ jobId }) => jobId))
  assert.deepEqual(reported.sort(), rows.map(({ id }) => id).sort())
}

async function once(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  for (const statement of statements) await client.query(statement)
  await client.end()
}

test('a server that restarts, in order and as after a crash, costs no job and no worker', async (t) => {
  const load = await startLoad(t, 'restarted')
  for (const mode of ['fast', 'immediate', 'fast', 'immediate'] as const) {
    await load.completesMore(200)
    await server.restart(mode)
  }
  await load.completesMore(200)
  await load.everythingIsDoneOnce()
})

test('a server that is read-only for a while costs no job and no worker', async (t) => {
  const load = await startLoad(t, 'read_only')
  await load.completesMore(200)
  await once(server.url, 'alter system set default_transaction_read_only = on', 'select pg_reload_conf()')
  for (const worker of load.workers) await worker.prints('problem', ({ error }) => error?.code === '25006')
  const writable = 'set default_transaction_read_only = off'
  await once(server.url, writable, 'alter system reset default_transaction_read_only', 'select pg_reload_conf()')
  await load.completesMore(200)
  await load.everythingIsDoneOnce()
})

test('a server without a connection to spare costs no job and no worker', async (t) => {
  const load = await startLoad(t, 'exhausted')
  await load.completesMore(200)
  const taken: pg.Client[] = []
  const take = async () => {
    const client = new pg.Client(server.url)
    client.on('error', () => {})
    await client.connect()
    taken.push(client)
  }
  const end = `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'exhausted'`
  const suffers = (worker: WorkerProcess) => worker.all('problem').some(({ error }) => error?.code === '53300')
  // Open connections stay open, so they are ended, and the freed ones are taken.
  await until('nobody can connect', async () => {
    await Promise.allSettled(Array.from({ length: CONNECTIONS }, take))
    await taken[0]!.query(end)
    return load.workers.every(suffers)
  })
  await Promise.all(taken.map((client) => client.end()))
  await load.completesMore(200)
  await load.everythingIsDoneOnce()
})
