import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startPgBouncer } from '../../tools/pgbouncer.ts'
import { freshDatabase } from '../support/database.ts'
import { needsPgBouncer } from '../support/optional-program.ts'
import { until } from '../support/until.ts'

const withPgBouncer = await needsPgBouncer()

const LAUNCHER = new URL('../../tools/pgbouncer.ts', import.meta.url).href
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

async function connected(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  t.after(() => client.end())
  await client.connect()
  return client
}

async function backend(client: pg.Client): Promise<number> {
  const { rows } = await client.query('select pg_backend_pid() as pid')
  return rows[0].pid
}

test('six clients take turns on three server connections, transaction by transaction', withPgBouncer, async (t) => {
  const { url, pool } = await freshDatabase(t)
  const bouncer = await startPgBouncer({ url })
  t.after(bouncer.stop)
  const clients = await Promise.all(Array.from({ length: 6 }, () => connected(t, bouncer.url)))
  const console = await connected(t, Object.assign(new URL(bouncer.url), { pathname: '/pgbouncer' }).href)

  const [first, second] = [clients.slice(0, 3), clients.slice(3)]
  const begun = await Promise.all(first.map((client) => client.query('begin').then(() => backend(client))))
  assert.equal(new Set(begun).size, 3)

  const waiting = Promise.all(second.map((client) => client.query('begin').then(() => backend(client))))
  await until('three clients wait for a server connection', async () => {
    const { rows } = await console.query('show pools')
    return rows.some((row) => row.database !== 'pgbouncer' && Number(row.cl_waiting) === 3)
  })
  await Promise.all(first.map((client) => client.query('commit')))
  assert.deepEqual((await waiting).sort(), begun.sort())
  await Promise.all(second.map((client) => client.query('commit')))

  const { rows } = await pool.query(
    `select pid from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`,
  )
  assert.deepEqual(rows.map(({ pid }) => pid).sort(), begun)
})

test('unnamed statements with parameters work on any server connection', withPgBouncer, async (t) => {
  const { url } = await freshDatabase(t)
  const bouncer = await startPgBouncer({ url })
  t.after(bouncer.stop)
  const clients = await Promise.all(Array.from({ length: 6 }, () => connected(t, bouncer.url)))
  const backends = new Set<number>()
  let right = 0
  const tenStatements = async (client: pg.Client, factor: number) => {
    for (let index = 0; index < 10; index++) {
      const text = `select $1::int * $2::int as product, pg_backend_pid() as pid -- ${index}`
      const { rows } = await client.query(text, [index, factor])
      if (rows[0].product === index * factor) right++
      backends.add(rows[0].pid)
    }
  }
  await Promise.all(clients.map(tenStatements))
  assert.equal(right, 60)
  assert.ok(backends.size <= 3, `${backends.size} server connections`)
})

test(
  'a client that listens through a transaction pool receives nothing; another client does',
  withPgBouncer,
  async (t) => {
    const { url, pool } = await freshDatabase(t)
    const bouncer = await startPgBouncer({ url, poolSize: 1 })
    t.after(bouncer.stop)
    const heard = { listener: 0, stranger: 0 }
    const listener = await connected(t, bouncer.url)
    listener.on('notification', () => heard.listener++)
    await listener.query('listen news')

    const stranger = await connected(t, bouncer.url)
    stranger.on('notification', () => heard.stranger++)
    await stranger.query('begin') // Now the stranger has the only server connection, and the notification waits.
    await stranger.query('select 1')
    await pool.query('notify news')
    await stranger.query('commit')
    await listener.query('select 1')
    assert.deepEqual(heard, { listener: 0, stranger: 1 })
  },
)

test('in session mode a listening client receives notifications', withPgBouncer, async (t) => {
  const { url, pool } = await freshDatabase(t)
  const bouncer = await startPgBouncer({ url, mode: 'session' })
  t.after(bouncer.stop)
  const listener = await connected(t, bouncer.url)
  await listener.query('listen news')
  const heard = once(listener, 'notification')
  await pool.query('notify news')
  await heard
})

test('nothing remains after the parent of PgBouncer was killed', withPgBouncer, async (t) => {
  const { url } = await freshDatabase(t)
  const temporary = await mkdtemp(join(tmpdir(), 'leasehold test '))
  t.after(() => rm(temporary, { recursive: true, force: true }))
  const script = `
    const { startPgBouncer } = await import(${JSON.stringify(LAUNCHER)})
    const { url, pid } = await startPgBouncer({ url: ${JSON.stringify(url)} })
    process.send({ url, pid })
    process.on('message', () => {}) // Keeps it alive.`
  const parent = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
    cwd: ROOT,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  t.after(() => parent.kill('SIGKILL'))
  const directories = () => readdirSync(temporary).filter((name) => name.startsWith('leasehold-pgbouncer-'))

  const [{ url: through, pid }] = (await once(parent, 'message')) as [{ url: string; pid: number }]
  const client = await connected(t, through)
  const ended = new Promise((resolve) => client.once('end', resolve))
  assert.equal(directories().length, 1)
  parent.kill('SIGKILL')
  await ended
  await until('the directory is removed', () => directories().length === 0)
  // The shell removes the directory after it has seen the program end.
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
})

test('stop removes everything, and may be called again', withPgBouncer, async (t) => {
  const { url } = await freshDatabase(t)
  const bouncer = await startPgBouncer({ url })
  await Promise.all([bouncer.stop(), bouncer.stop()])
  await bouncer.stop()
  assert.throws(() => process.kill(bouncer.pid, 0), { code: 'ESRCH' })
})

test('a PgBouncer that cannot start reports why', withPgBouncer, async (t) => {
  const { url } = await freshDatabase(t)
  await assert.rejects(startPgBouncer({ url, poolSize: Number.NaN }), /invalid value "NaN" for parameter/)
  const nowhere = Object.assign(new URL(url), { pathname: '/nowhere' }).href
  await assert.rejects(startPgBouncer({ url: nowhere }), /database "nowhere" does not exist/)
})
