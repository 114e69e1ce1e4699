// Eight worker processes over twenty keys, of which some are killed and some stand still for longer than their lease. The verdict
// is read from rows that handlers wrote under their lease; no time is measured.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { queue } from '../../src/index.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { count, inTime, scene } from '../support/worker.ts'
import { step } from './programs/worker.ts'

const KEYS = 20
const ROWS = 100
const PROGRAM = fileURLToPath(new URL('./programs/worker.ts', import.meta.url))

async function start(t: Pick<TestContext, 'after'>, url: string): Promise<{ child: ChildProcess; id: string }> {
  const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM], {
    env: { ...process.env, LEASEHOLD_TEST_WORKER: url },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const closed = new Promise((resolve) => child.once('close', resolve))
  t.after(async () => {
    child.kill('SIGKILL')
    await closed
  })
  const ready = new Promise<string>((resolve) => child.once('message', (id) => resolve(String(id))))
  return { child, id: await inTime(ready, 'the process is not ready') }
}

test('keys keep their order while worker processes are killed and stand still', async (t) => {
  const { db, lh, undo } = await scene(t)
  await lh.configure([queue('step', { ordered: true })])
  await db.pool.query('create table noted (id bigserial primary key, key int, n int, what text)')
  const rows = Array.from({ length: KEYS * ROWS }, (_, i) => ({ key: i % KEYS, n: Math.floor(i / KEYS) + 1 }))
  const workers = await Promise.all(Array.from({ length: 8 }, () => start(undo, db.url)))
  const noted = async () => count(db, 'from noted')
  const later = async (more: number) => {
    const from = await noted()
    await until(`${more} more steps, or all`, async () => (await noted()) >= from + more || (await done()))
  }
  const done = async () => (await count(db, 'from leasehold.job')) === 0

  for (let at = 0; at < rows.length; at += 500) {
    await lh.enqueueMany(
      step,
      rows.slice(at, at + 500).map((input) => ({ input, partitionKey: `key:${input.key}` })),
    )
    const victim = workers.shift()!
    await later(100)
    if (at % 1_000 === 0) victim.child.kill('SIGKILL')
    else {
      victim.child.kill('SIGSTOP')
      const held = 'from leasehold.claim where worker_id = $1 and not swept'
      await until('its leases are swept', async () => (await count(db, held, [victim.id])) === 0)
      victim.child.kill('SIGCONT')
    }
    assert.deepEqual(await broken(db), [])
  }
  await until('all are done', done)

  assert.equal(await count(db, "from leasehold.jobs where status <> 'completed'"), 0)
  assert.equal(await count(db, "from leasehold.jobs where status = 'completed'"), KEYS * ROWS, 'none is lost')
  for (let key = 0; key < KEYS; key++) {
    const { rows } = await db.pool.query<{ n: number; what: string }>(
      'select n, what from noted where key = $1 order by id',
      [key],
    )
    assert.deepEqual(faults(rows, key % 2 === 0), [], `key ${key}`)
  }
  // A key that was empty when its last job ended in a transaction of its handler is looked at by a later claim.
  await until('no key is to be looked at', async () => (await count(db, 'from leasehold.order_check')) === 0)
  await nothingLeft(db)
})

/**
 * A job that is completed with its end starts when the one before has ended, and ends once. Of the others a few may start again, but
 * then all from there on do: none starts unless the one before it was the last that started.
 */
function faults(rows: readonly { n: number; what: string }[], isTransactional: boolean): string[] {
  const found: string[] = []
  let ended = 0
  let last = 0
  for (const { n, what } of rows) {
    if (what === 'start') {
      if (n > last + 1) found.push(`${n} starts after ${last}`)
      if (isTransactional && n !== ended + 1) found.push(`${n} starts when ${ended} have ended`)
      last = n
    } else {
      if (n !== ended + 1) found.push(`${n} ends when ${ended} have ended`)
      ended = n
    }
  }
  if (last !== ROWS) found.push(`the last to start is ${last}`)
  return found
}
