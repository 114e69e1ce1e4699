// Chores: each is run by one worker per interval, beside the jobs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import { type Chore, handle, kind } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { codeOf, collect, count, next, type Scene, scene } from '../support/worker.ts'

const idle = [handle(kind('idle'), () => {})]
const ticks: Chore = { name: 'ticks', every: '100ms', run: async () => ({}) }

/** Begins once, and then runs as long as the test wants. */
function hanging(): Chore & { readonly begun: Promise<void>; runs: number; end(): void } {
  const [begun, end] = [gate(), gate()]
  const run = async () => {
    chore.runs++
    begun.open()
    await end.opened
    return {}
  }
  const chore = { name: 'hangs', every: '100ms' as const, begun: begun.opened, runs: 0, run, end: end.open }
  return chore
}

/** How often the duty of this chore was taken from now on, by any worker. */
async function takings({ db }: Scene, name: string): Promise<() => Promise<number>> {
  await db.pool.query(`
    create table taken (name text);
    create function note() returns trigger language plpgsql as
      $$ begin insert into taken values (new.name); return null; end $$;
    create trigger note after update on leasehold.duty for each row execute function note()`)
  return () => count(db, 'from taken where name = $1', [`chore: ${name}`])
}

test('a chore may be an object with a state of its own', async (t) => {
  class Counting implements Chore {
    readonly name = 'counting'
    readonly every = '100ms'
    runs = 0
    async run() {
      return { runs: ++this.runs }
    }
  }
  const { worker } = await scene(t)
  const busy = worker(idle, { chores: [new Counting()] })
  assert.deepEqual(await next(busy, 'chore'), { name: 'counting', counts: { runs: 1 } })
})

test('the duty of a running chore is left to others, and taken again when it has ended', async (t) => {
  const setting = await scene(t)
  const taken = await takings(setting, 'hangs')
  const own = hanging()
  const first = setting.worker(idle, { chores: [own, ticks] })
  await own.begun
  const reported = collect(first, 'chore')
  await until('it has looked again and again', () => reported.length > 5)
  assert.deepEqual([await taken(), own.runs], [1, 1])

  const elsewhere = setting.worker(idle, { chores: [{ ...ticks, name: 'hangs' }] })
  await next(elsewhere, 'chore')
  await elsewhere.stop()
  own.end()
  await until('it is begun again', () => own.runs > 1)
})

test('a single long chore is taken again when it has ended', async (t) => {
  const setting = await scene(t)
  const own = hanging()
  setting.worker(idle, { chores: [own] })
  await own.begun
  await until('its next run is due', async () => {
    const due = `from leasehold.duty where name = 'chore: hangs' and next_at <= leasehold.clock()`
    return (await count(setting.db, due)) === 1
  })
  own.end()
  await until('it is begun again', () => own.runs > 1)
})

test('a chore that takes far too long is a problem, once', async (t) => {
  const setting = await scene(t)
  const own = hanging()
  const busy = setting.worker(idle, { chores: [own, ticks] })
  const [problems, reported] = [collect(busy, 'problem'), collect(busy, 'chore')]
  const ofChore = () => problems.filter((problem) => problem!.doing === 'hangs')
  await own.begun
  await until('it has looked again', () => reported.length > 3)
  assert.deepEqual(ofChore(), [])
  const now = performance.now.bind(performance)
  t.mock.method(performance, 'now', () => now() + 60_000)
  await until('it is reported', () => ofChore().length > 0)
  const before = reported.length
  await until('it has looked again and again', () => reported.length > before + 5)
  assert.deepEqual(
    ofChore().map((problem) => (problem!.error as { code: string }).code),
    ['TIMED_OUT'],
  )
  own.end()
})

test('chores are looked for on a connection of their own: an exhausted pool delays nothing', async (t) => {
  const { db, undo, leasehold, worker } = await scene(t)
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  const client = await pool.connect()
  undo.after(async () => {
    client.release()
    await pool.end()
  })
  const busy = worker(idle, { chores: [ticks] }, leasehold({ pool, connectionString: undefined as never }))
  assert.deepEqual(await next(busy, 'chore'), { name: 'ticks', counts: {} })
  await busy.stop()
})

test('drain and runOnce refuse chores, since they would not run them', async (t) => {
  const { lh } = await scene(t)
  assert.equal(await codeOf(() => lh.drain(idle, { chores: [ticks] })), 'INVALID_OPTION')
  assert.equal(await codeOf(() => lh.runOnce(idle, { chores: [ticks] })), 'INVALID_OPTION')
  assert.equal((await lh.drain(idle, { chores: [] })).completed, 0)
})

test('a chore that gives up on rows is a warning, and one that fails is logged by name, without its message', async (t) => {
  const { worker, log } = await scene(t)
  let runs = 0
  const chore: Chore = {
    name: 'recovery of doc',
    every: '100ms',
    run: async () => {
      if (++runs === 1) throw new Error('jane@example.com')
      return { givenUp: 2 }
    },
  }
  await next(worker(idle, { chores: [chore] }), 'chore')
  assert.deepEqual(
    log.filter(({ level }) => level === 'warn').map(({ message }) => message.replace(/\d+ s$/, 'a while')),
    [
      'trouble with the chore "recovery of doc"',
      'the chore "recovery of doc" works again after a while',
      'the chore "recovery of doc" found 2 rows that have exhausted their attempts',
    ],
  )
})
