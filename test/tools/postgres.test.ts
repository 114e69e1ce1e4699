// The launcher must leave nothing behind however its process ends. Each test starts a server in a new process, in a
// temporary directory whose name has a space, ends that process in one way, and checks for leftovers.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startPostgres } from '../../tools/postgres.ts'
import { until } from '../support/until.ts'

const LAUNCHER = new URL('../../tools/postgres.ts', import.meta.url).href
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const posixOnly = { skip: process.platform === 'win32' ? 'no shell keeps watch there' : false }

interface Started {
  directory: string
  pids: number[]
}

async function temporaryDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'leasehold test '))
  await chmod(directory, 0o755) // As root, the server is another user and must be able to pass.
  t.after(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** Runs `then` in a new process after its server has started. */
function launch(t: TestContext, temporary: string, then: string): ChildProcess {
  const script = `
    const { startPostgres } = await import(${JSON.stringify(LAUNCHER)})
    const server = await startPostgres({ settings: { fsync: 'off' } })
    process.send({ url: server.url, directory: server.directory, pids: server.pids })
    await new Promise((resolve) => process.once('message', resolve))
    ${then}`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
    cwd: ROOT,
    env: { ...process.env, TMPDIR: temporary },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  t.after(() => child.kill('SIGKILL'))
  return child
}

/** Everything that must be gone later, checked to exist now: otherwise its absence would prove nothing. */
async function started(child: ChildProcess): Promise<Started> {
  const [{ url, directory, pids }] = (await once(child, 'message')) as [
    { url: string; directory: string; pids: Record<string, number> },
  ]
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query<{ pid: number }>(
    // Not one that starts and ends by itself.
    `select pid from pg_stat_activity where backend_type not in ('client backend', 'autovacuum worker')`,
  )
  await client.end()
  assert.ok(rows.length > 0)
  const all = [...Object.values(pids), ...rows.map(({ pid }) => pid)]
  for (const pid of all) assert.ok(await isRunning(pid), `process ${pid} should run by now`)
  assert.ok(existsSync(join(directory, 'data', 'PG_VERSION')))
  return { directory, pids: all }
}

async function isRunning(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  // A process that has ended but was never reaped by init still has a pid.
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return !/\) [ZX] /.test(stat)
}

/** Files in `temporary`, except those of the TypeScript loader. */
async function homes(temporary: string): Promise<string[]> {
  return (await readdir(temporary)).filter((name) => name.startsWith('leasehold-postgres-'))
}

async function nothingRemains(temporary: string, { pids }: { pids: number[] }): Promise<void> {
  for (const pid of pids) await until(`process ${pid} ends`, async () => !(await isRunning(pid)))
  await until('the directory is removed', async () => (await homes(temporary)).length === 0)
}

// SIGINT, SIGHUP and process.exit end the same way: the kernel closes the pipes.
const endings = {
  SIGKILL: '',
  SIGTERM: '',
  'a thrown error': `throw new Error('on purpose')`,
  'an unhandled rejection': `setInterval(() => {}, 1000); Promise.reject(new Error('on purpose'))`,
  'the end of its work, without stop': 'process.disconnect()',
}

for (const [ending, then] of Object.entries(endings)) {
  test(`nothing remains after ${ending}`, posixOnly, async (t) => {
    const temporary = await temporaryDirectory(t)
    const child = launch(t, temporary, then || 'setInterval(() => {}, 1000)')
    const server = await started(child)
    assert.deepEqual(await homes(temporary), [server.directory.slice(temporary.length + 1)])
    if (then) child.send('go on')
    else child.kill(ending as NodeJS.Signals)
    await once(child, 'exit')
    await nothingRemains(temporary, server)
  })
}

test('nothing remains if the parent is killed while the cluster is being made', posixOnly, async (t) => {
  const temporary = await temporaryDirectory(t)
  const child = launch(t, temporary, '')
  const versionFile = async () => {
    const [home] = await homes(temporary)
    return home !== undefined && existsSync(join(temporary, home, 'data', 'PG_VERSION'))
  }
  await until('initdb is at work', versionFile)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await nothingRemains(temporary, { pids: [] })
})

test('stop removes everything, and may be called again', async () => {
  const server = await startPostgres({ settings: { fsync: 'off', work_mem: '5MB' } })
  assert.ok(existsSync(server.dataDirectory))
  const client = new pg.Client(server.url)
  await client.connect()
  const { rows } = await client.query('show work_mem')
  assert.equal(rows[0].work_mem, '5MB')
  await client.end()
  await Promise.all([server.stop(), server.stop()])
  await server.stop()
  assert.equal(existsSync(server.directory), false)
  assert.equal(await isRunning(server.pids.postmaster), false)
})

test('a server that cannot start reports why, and leaves nothing', async (t) => {
  const temporary = await temporaryDirectory(t)
  const before = process.env.TMPDIR
  t.after(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  })
  process.env.TMPDIR = temporary
  await assert.rejects(startPostgres({ settings: { shared_buffers: 'plenty' } }), /invalid value for parameter/)
  assert.deepEqual(await homes(temporary), [])
})
