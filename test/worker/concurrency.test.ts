// How much a worker claims at a time, and what it leaves to others.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Session } from '../../src/db/session.ts'
import { handle, type Job, type JobId, kind } from '../../src/index.ts'
import { gate } from '../support/gate.ts'
import { jobRow } from '../support/queue.ts'
import { until } from '../support/until.ts'
import { collect, count, isClaim, next, nothingHeld, scene, statements, type Undo } from '../support/worker.ts'

const task = kind<number>('task')
const other = kind<number>('other')
const numbers = (length: number) => Array.from({ length }, (_, input) => ({ input }))

/** A handler that waits to be let go, and counts how many do. */
function held() {
  const go = gate()
  let now = 0
  let most = 0
  return {
    go,
    get now() {
      return now
    },
    get most() {
      return most
    },
    run: async () => {
      most = Math.max(most, ++now)
      await go.opened
      now--
    },
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a worker never exceeds its concurrency, however fast its handlers are', async (t) => {
  const { lh, worker } = await scene(t)
  let [now, most] = [0, 0]
  const busy = worker(
    [
      handle(task, async () => {
        most = Math.max(most, ++now)
        await turn()
        now--
      }),
    ],
    { concurrency: 3 },
  )
  await lh.enqueueMany(task, numbers(2_000))
  await until('all are completed', () => busy.tally.completed === 2_000)
  assert.equal(most, 3)
})

test('a kind with a limit of its own keeps to it, and leaves the other slots to the others', async (t) => {
  const { lh, worker } = await scene(t)
  const [limited, free] = [held(), held()]
  const handlers = [handle(task, limited.run, { concurrency: 2 }), handle(other, free.run)]
  await lh.enqueueMany(task, numbers(20))
  await lh.enqueueMany(other, numbers(20))
  const busy = worker(handlers, { concurrency: 10 })
  await until('the worker is full', () => limited.now + free.now === 10)
  assert.ok(limited.now >= 1 && limited.now <= 2, `${limited.now} of the limited kind`)
  free.go.open()
  await until('the limited kind has all that it may', () => limited.now === 2)
  limited.go.open()
  await until('all are completed', () => busy.tally.completed === 40)
  assert.equal(limited.most, 2)
})

test('kinds with limits of their own share a queue, and none starves', async (t) => {
  const { lh, worker } = await scene(t)
  const shared = [1, 2, 3].map((limit) => ({
    limit,
    kind: kind<number>(`limited ${limit}`, { queue: 'shared' }),
    held: held(),
  }))
  for (const { kind } of shared) await lh.enqueueMany(kind, numbers(10))
  const busy = worker(
    shared.map(({ kind, held, limit }) => handle(kind, held.run, { concurrency: limit })),
    { concurrency: 10, poll: 50 },
  )
  await until('each is at its limit', () => shared.every(({ held, limit }) => held.now === limit))
  for (const { held } of shared) held.go.open()
  await until('all are completed', () => busy.tally.completed === 30)
  assert.deepEqual(
    shared.map(({ held }) => held.most),
    [1, 2, 3],
  )
})

test('a worker whose handlers are slow holds nothing that another could run', async (t) => {
  const { lh, db, worker } = await scene(t)
  const [first, second] = [held(), held()]
  await lh.enqueueMany(task, numbers(12))
  const slow = worker([handle(task, first.run)], { concurrency: 4, poll: 20 })
  await until('the first is full', () => first.now === 4)
  const idle = worker([handle(task, second.run)], { concurrency: 8, poll: 20 })
  await until('the second has the rest', () => second.now === 8)
  assert.equal(await count(db, 'from leasehold.job where claim_id is not null'), 12)
  first.go.open()
  second.go.open()
  await until('all are completed', () => slow.tally.completed + idle.tally.completed === 12)
  assert.deepEqual([first.most, second.most], [4, 8])
})

test('a worker whose handlers are fast claims ahead, but never more than prefetch', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(10_000))
  const names = statements(t)
  const ahead = worker([handle(task, turn)], { concurrency: 2, prefetch: 20 })
  let most = 0
  const claimed = 'from leasehold.job where claim_id is not null'
  await until('it is at full speed', async () => {
    most = Math.max(most, await count(db, claimed))
    return ahead.tally.completed >= 2_000
  })
  await ahead.stop()
  // 22 that wait or run, as many whose outcomes are in flight, and the two that ran when these became too many.
  assert.ok(most > 2 && most <= 46, `${most} were held at once`)
  const claims = names.filter(isClaim).length
  assert.ok(claims < ahead.tally.completed / 2, `${claims} claims for ${ahead.tally.completed} jobs`)
  await nothingHeld(db)
})

test('without prefetch nothing waits', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(300))
  const busy = worker([handle(task, turn)], { concurrency: 2, prefetch: 0 })
  let most = 0
  await until('all are completed', async () => {
    most = Math.max(most, await count(db, 'from leasehold.job where claim_id is not null'))
    return busy.tally.completed === 300
  })
  // Two that run, two whose outcomes are in flight, and the two that ran when these became too many.
  assert.ok(most <= 6, `${most} were held at once`)
})

test('prefetched jobs that wait too long are released for other workers, and their attempt is not spent', async (t) => {
  const { lh, db, worker } = await scene(t)
  await lh.enqueueMany(task, numbers(5_000))
  const slow = gate()
  let ran = 0
  const suddenlySlow = handle(task, () => (++ran <= 1_000 ? turn() : slow.opened))
  const hoarder = worker([suddenlySlow], { concurrency: 2 })
  const released = collect(hoarder, 'released')
  await until('something goes back', () => released.length > 0)
  await until('it holds only what it runs', async () => {
    return (await count(db, 'from leasehold.job where claim_id is not null')) === 2
  })
  assert.equal(await count(db, 'from leasehold.job where claim_id is null and attempts > 0'), 0)
  const helper = worker([handle(task, turn)], { concurrency: 100 })
  await until('the others are completed', async () => (await count(db, 'from leasehold.job')) === 2)
  slow.open()
  await until('all are completed', () => hoarder.tally.completed + helper.tally.completed === 5_000)
  assert.equal(hoarder.tally.completed, 1_002)
})

test('of a shared queue a worker claims only the kinds it knows', async (t) => {
  const { lh, db, worker } = await scene(t)
  const known = kind<number>('known', { queue: 'shared' })
  const unknown = kind<number>('unknown', { queue: 'shared' })
  const strangers = await lh.enqueueMany(unknown, numbers(50))
  await lh.enqueueMany(known, numbers(50))
  const ran: string[] = []
  const busy = worker([handle(known, ({ kind }: Job<number>) => void ran.push(kind))], { poll: 20 })
  await until('its own are completed', () => busy.tally.completed === 50)
  assert.deepEqual(new Set(ran), new Set(['known']))
  for (const { jobId } of strangers.slice(0, 3)) assert.equal((await jobRow(db, jobId)).lease_generation, '0')
  assert.equal(await count(db, 'from leasehold.job where lease_generation = 0'), 50)
})

test('the most urgent waiting job starts first', async (t) => {
  const { lh, worker } = await scene(t)
  for (const priority of [9, 5, 3, 0, 5, 0]) await lh.enqueue(task, priority, { priority })
  const order: number[] = []
  const busy = worker([handle(task, ({ input }) => void order.push(input))])
  await until('all are completed', () => busy.tally.completed === 6)
  assert.deepEqual(order, [0, 0, 3, 5, 5, 9])
})

test('urgent work of one kind does not wait behind a backlog of another', async (t) => {
  const { lh, worker } = await scene(t)
  await lh.enqueueMany(other, numbers(5_000))
  const ended: JobId[] = []
  const isEnqueued = gate()
  const patient = () => (ended.length > 100 ? isEnqueued.opened : turn())
  const busy = worker([handle(other, patient), handle(task, turn)], { concurrency: 2, prefetch: 10 })
  busy.on('completed', ({ jobId }) => ended.push(jobId))
  await until('the backlog is being worked off', () => ended.length > 100)
  const { jobId } = await lh.enqueue(task, 1, { priority: 0 })
  isEnqueued.open()
  await until('the urgent one is completed', () => ended.includes(jobId))
  assert.ok(ended.length < 5_000, 'it waited for all the others')
})

test('a handler that stops the worker from within does not wait for itself for ever', async (t) => {
  const { lh, db, worker } = await scene(t)
  const busy = worker([
    handle(task, async ({ signal }) => {
      void busy.stop({ grace: '10ms' })
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      throw signal.reason
    }),
  ])
  const [aborted, released] = [next(busy, 'aborted'), next(busy, 'released')]
  const { jobId } = await lh.enqueue(task, 1)
  assert.equal((await aborted).reason, 'stopping')
  await released
  await busy.stop()
  assert.deepEqual([(await jobRow(db, jobId)).status, (await jobRow(db, jobId)).attempts], ['pending', 0])
  await nothingHeld(db)
})

test('a slot freed while a claim is in flight is filled afterwards', async (t) => {
  const { lh, worker, undo } = await scene(t)
  const gates = Array.from({ length: 5 }, gate)
  const started: number[] = []
  await lh.enqueueMany(task, numbers(5))
  // The claim goes along with the completion of the first, or follows it while the worker still joins those that listen.
  const answers = holdAnswers(undo, /^-- job\.(turn|claim)\n/)
  const ended: number[] = []
  const run = async ({ input }: Job<number>) => {
    started.push(input)
    await gates[input]!.opened
    ended.push(input)
  }
  worker([handle(task, run)], { concurrency: 3, prefetch: 0, poll: '1h' })
  await until('its slots are full', () => started.length === 3)
  // One slot is free when the claim is sent, two when it returns.
  const held = answers.holdNext()
  gates[0]!.open()
  const answer = await held
  gates[1]!.open()
  await until('the second slot is free', () => ended.length === 2)
  answer()
  await until('both slots are used', () => started.length === 5)
  for (const { open } of gates) open()
})

/** Holds the reply to a statement until the test lets it go. */
function holdAnswers(undo: Undo, statement: RegExp): { holdNext(): Promise<() => void> } {
  const { prototype } = Session
  const { query } = prototype
  let arrived: ((go: () => void) => void) | undefined
  prototype.query = async function (this: Session, config) {
    const answer = await query.call(this, config)
    if (arrived !== undefined && statement.test(config.text)) {
      const { opened, open } = gate()
      arrived(open)
      arrived = undefined
      await opened
    }
    return answer
  }
  undo.after(() => {
    prototype.query = query
  })
  return {
    holdNext: () =>
      new Promise((resolve) => {
        arrived = resolve
      }),
  }
}
