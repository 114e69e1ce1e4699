// Worker processes on the ring that join, leave, are killed, and stand still past the expiry of their seat, under an ordered
// workload. The verdict is read from rows that handlers wrote under their lease; times are printed, and none is judged.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Leasehold, queue } from '../../src/index.ts'
import type { TestDatabase } from '../support/database.ts'
import { broken, nothingLeft } from '../support/order.ts'
import { until } from '../support/until.ts'
import { count, inTime, type Scene, scene, type Undo } from '../support/worker.ts'
import { type Report, step } from './programs/worker.ts'

const KEYS = 60
const PROGRAM = fileURLToPath(new URL('./programs/worker.ts', import.meta.url))

class Process {
  readonly #child: ChildProcess
  readonly #ready: Promise<void>
  readonly gone: Promise<unknown>
  readonly owned = new Set<number>()
  readonly reports: Report[] = []
  id = ''

  constructor(t: Undo, url: string) {
    this.#child = spawn(process.execPath, ['--import', 'tsx', PROGRAM], {
      env: { ...process.env, LEASEHOLD_TEST_WORKER: url },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.gone = new Promise((resolve) => this.#child.once('close', resolve))
    t.after(async () => {
      this.#child.kill('SIGKILL')
      await this.gone
    })
    this.#ready = new Promise((resolve) => this.#child.on('message', (report: Report) => this.#heard(report, resolve)))
  }

  ready(): Promise<void> {
    return inTime(this.#ready, 'the process is not ready')
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Asks it to leave, and waits until it has. */
  async leave(): Promise<void> {
    this.kill('SIGTERM')
    assert.equal(await inTime(this.gone, 'the process does not end'), 0)
  }

  #heard(report: Report, ready: () => void): void {
    this.reports.push(report)
    for (const bucket of report.buckets) report.e === 'gained' ? this.owned.add(bucket) : this.owned.delete(bucket)
    if (report.e !== 'ready') return
    this.id = report.id!
    ready()
  }
}

async function start(t: Undo, url: string, howMany: number): Promise<Process[]> {
  const made = Array.from({ length: howMany }, () => new Process(t, url))
  await Promise.all(made.map((each) => each.ready()))
  return made
}

/** Each bucket belongs to exactly one of them. */
async function divided(workers: readonly Process[]): Promise<void> {
  await until('every bucket has one owner', () => {
    const all = workers.flatMap(({ owned }) => [...owned])
    return all.length === 1_024 && new Set(all).size === 1_024 && workers.every(({ owned }) => owned.size > 0)
  })
}

interface Load {
  /** Ends the producer, and waits until all is done. Returns how many jobs there were. */
  end(): Promise<number>
}

/** A producer that keeps some hundreds of jobs ahead of the workers. */
function produce(db: TestDatabase, lh: Leasehold): Load {
  let n = 0
  let isOver = false
  const producing = (async () => {
    while (!isOver) {
      n++
      await lh.enqueueMany(
        step,
        Array.from({ length: KEYS }, (_, key) => ({ input: { key, n }, partitionKey: `key:${key}` })),
      )
      await until('there is demand', async () => isOver || (await count(db, 'from leasehold.job')) < 300)
    }
  })()
  return {
    end: async () => {
      isOver = true
      await producing
      await until('all are done', async () => (await count(db, 'from leasehold.job')) === 0)
      return n
    },
  }
}

/** Each job of a key starts when the one before it has ended, and ends once. */
async function assertInOrder(db: TestDatabase, rounds: number): Promise<void> {
  assert.equal(await count(db, "from leasehold.jobs where status <> 'completed'"), 0)
  const { rows } = await db.pool.query<{ key: number; n: number; what: string }>(
    'select key, n, what from noted order by id',
  )
  const ended = new Map<number, number>()
  const faults: string[] = []
  for (const { key, n, what } of rows) {
    const before = ended.get(key) ?? 0
    if (n !== before + 1) faults.push(`${n} of key ${key}: ${what} when ${before} have ended`)
    if (what === 'end') ended.set(key, n)
  }
  assert.deepEqual(faults, [])
  assert.deepEqual([...ended.values()], Array(KEYS).fill(rounds), 'none is lost')
}

async function onRing(t: TestContext): Promise<Scene> {
  const made = await scene(t)
  await made.lh.configure([queue('step', { ordered: true, ring: true })])
  await made.db.pool.query('create table noted (id bigserial primary key, key int, n int, what text, worker text)')
  return made
}

/** What moved, and how long it took until every bucket had an owner again. */
async function change(
  t: TestContext,
  what: string,
  before: readonly Process[],
  after: readonly Process[],
  act: () => Promise<void>,
) {
  const sets = new Map(before.map((each) => [each, new Set(each.owned)]))
  const began = performance.now()
  await act()
  await divided(after)
  const took = performance.now() - began
  const moved = after.reduce(
    (sum, each) => sum + [...each.owned].filter((bucket) => !sets.get(each)?.has(bucket)).length,
    0,
  )
  t.diagnostic(`${what}: ${((100 * moved) / 1_024).toFixed(1)} % moved, ${(took / 1_000).toFixed(2)} s`)
}

test('keys keep their order while processes join, leave, die and stand still', async (t) => {
  const { db, lh, undo } = await onRing(t)
  let workers = await start(undo, db.url, 7)
  await divided(workers)
  const load = produce(db, lh)
  const progress = async () => {
    const from = await count(db, 'from noted')
    await until('work goes on', async () => (await count(db, 'from noted')) >= from + 300)
    assert.deepEqual(await broken(db), [])
  }
  for (let round = 0; round < 3; round++) {
    await progress()
    const [newcomer] = await start(undo, db.url, 1)
    await change(t, 'an eighth joins', workers, [...workers, newcomer!], async () => {})
    workers.push(newcomer!)
    await progress()
    const [victim, ...others] = workers
    await change(t, 'one of eight is killed', workers, others, async () => victim!.kill('SIGKILL'))
    workers = others
    await progress()
    const [still] = workers
    const rest = workers.slice(1)
    await change(t, 'one of seven stands still', workers, rest, async () => still!.kill('SIGSTOP'))
    await progress()
    await change(t, 'it continues', rest, workers, async () => still!.kill('SIGCONT'))
    await progress()
    const leaver = workers.at(-1)!
    const stay = workers.slice(0, -1)
    await change(t, 'one of seven leaves', workers, stay, () => leaver.leave())
    workers = [...stay, ...(await start(undo, db.url, 1))]
    await divided(workers)
  }
  await assertInOrder(db, await load.end())
  await until('no key is to be looked at', async () => (await count(db, 'from leasehold.order_check')) === 0)
  await nothingLeft(db)
})

test('a rolling restart of four spends no attempt, expires no lease, and moves no bucket for good', async (t) => {
  const { db, lh, undo } = await onRing(t)
  const workers = await start(undo, db.url, 4)
  await divided(workers)
  const seatOf = async ({ id }: Process) =>
    (await db.pool.query('select number from leasehold.seat where worker_id = $1', [id])).rows[0]?.number as number
  const owned = async () =>
    new Map(await Promise.all(workers.map(async (each) => [await seatOf(each), new Set(each.owned)] as const)))
  const before = await owned()
  const load = produce(db, lh)
  for (const [index, old] of workers.entries()) {
    const began = performance.now()
    await old.leave()
    const [fresh] = await start(undo, db.url, 1)
    workers[index] = fresh!
    await divided(workers)
    t.diagnostic(
      `restart ${index + 1}: ${((performance.now() - began) / 1_000).toFixed(2)} s until the buckets are back`,
    )
    const from = await count(db, 'from noted')
    await until('work goes on', async () => (await count(db, 'from noted')) >= from + 200)
  }
  assert.deepEqual(await owned(), before)
  const rounds = await load.end()
  await assertInOrder(db, rounds)
  // What was prefetched is released with its attempt. No lease expires, and no handler is interrupted.
  const others = "from leasehold.attempts where outcome not in ('completed', 'released')"
  assert.equal(await count(db, others), 0)
  assert.equal(await count(db, 'from leasehold.jobs where attempts <> 1'), 0)
  assert.equal(await count(db, "from noted where what = 'start'"), rounds * KEYS, 'each has started once')
})
