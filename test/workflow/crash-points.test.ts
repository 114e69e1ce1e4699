// A sweep over crash points: a process that executes a run dies before and after each of its statements. Another one resumes.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CONNECTION } from '../../src/db/connection.ts'
import { Fatal, type Handler, handle, kind, Leasehold } from '../../src/index.ts'
import { Worker } from '../../src/worker/worker.ts'
import { handleRuns, type Run, signal, start, workflow } from '../../src/workflow/index.ts'
import { type Death, type Mortal, mortal } from '../support/mortal.ts'
import { count, nothingHeld, type Scene, scene } from '../support/worker.ts'

const FAST = { retry: { backoff: { first: 1, max: 1 } }, backoff: { first: 1, max: 1 } } as const
/** More than a run needs. */
const ROUNDS = 12
/** Statements that may change what becomes of a run. Housekeeping, which a process does when it starts, is left out. */
const OF_RUNS = /step\.|job\.(claim|settle|complete|turn)|^begin|^commit|insert into/
/** How many die at a time. */
const AT_ONCE = 12

const RESULT = { a: { b: 1, a: 2 }, go: 'went', first: 'late', doubled: 42, pair: ['p1', 'p2'], second: 'ok', third: 3 }
const STEPS = ['a', 'b', 'double', 'go', 'late|never', 'late|ok', 'p 1', 'p 2', 'sleep', 'third']

interface Life {
  readonly name: string
  readonly mortal: Mortal
  readonly lh: Leasehold
  readonly handlers: Handler[]
  readonly jobId: string
  readonly flow: ReturnType<typeof flowOf>['flow']
}

/** A ten-step workflow of this name. What its steps do is done by a process: a dead one does nothing more. */
function flowOf(name: string, db: Scene['db'], fails: boolean) {
  const double = kind<number>(`double of ${name}`, {}).returns<number>()
  const versionFor = (isDead: () => boolean) => {
    const done = async (what: string) => {
      if (isDead()) await new Promise(() => {})
      await db.pool.query('insert into effect values ($1, $2)', [name, what])
      return what
    }
    const code = async (run: Run) => {
      const a = await run.step('a', { compensate: () => done('undo a') }, async () => {
        await done('a')
        return { b: 1, a: 2 }
      })
      await run.tx('b', (tx) => tx.query('insert into tx_effect values ($1)', [name]).then(() => null))
      await run.sleep('1h')
      const go = await run.signal<string>('go')
      const first = await run.any({ never: run.signal('never'), late: run.sleep('1h') })
      const doubled = await run.job(double, 21, { name: 'double' })
      const pair = await Promise.all(
        [1, 2].map((n) => run.step(['p', n], { compensate: () => done(`undo p${n}`) }, () => done(`p${n}`))),
      )
      const second = await run.any({ ok: run.signal('ok'), late: run.sleep('90d') })
      await run.note('nearly there')
      const third = await run.step('third', async ({ attempt }) => {
        await done('third')
        if (fails) throw new Fatal('refused')
        if (attempt < 3) throw new Error('not yet')
        return attempt
      })
      return { a, go, first: first.name, doubled, pair, second: second.name, third }
    }
    const flow = workflow<null, unknown>(name, FAST, code)
    return { flow, handlers: [handleRuns(flow), handle(double, ({ input }) => 2 * input)] }
  }
  return { flow: versionFor(() => false).flow, versionFor }
}

async function lifeOf(s: Scene, name: string, death: Death, fails: boolean): Promise<Life> {
  const { flow, versionFor } = flowOf(name, s.db, fails)
  const process = mortal(s.db.url, death, OF_RUNS)
  s.undo.after(() => process.bury())
  const lh = new Leasehold(process.options)
  const { jobId } = await start(s.lh, flow, null, { runId: 'r' })
  return { name, mortal: process, lh, handlers: versionFor(() => process.isDead).handlers, jobId, flow }
}

/** Executes what can be executed now, or dies. */
async function liveOn({ mortal, lh, handlers }: Life): Promise<void> {
  if (mortal.isDead) return
  const worker = new Worker(lh[CONNECTION], handlers, { signals: [] }, 'empty')
  const running = worker.run()
  running.catch(() => {}) // It may fail once it is buried.
  await Promise.race([running, mortal.died])
  if (mortal.isDead) void mortal.died.then(() => worker.stop({ grace: 0 })).catch(() => {})
}

/** What others do meanwhile: time passes, and signals are sent. */
async function othersAct({ db, lh }: Scene, lives: readonly Life[]): Promise<void> {
  await db.clock.advance('2 h')
  const send = (flow: Life['flow'], name: string, payload: unknown) =>
    signal(lh, flow, 'r', name, payload, { idempotencyKey: 'once' }).catch((error) => {
      assert.equal(error.code, 'RUN_FINISHED')
    })
  await Promise.all(lives.flatMap(({ flow }) => [send(flow, 'go', 'went'), send(flow, 'ok', null)]))
}

/** Kills a process at each of its statements, or at the last ones. */
async function sweep(t: TestContext, fails: boolean, last?: number): Promise<{ s: Scene; lives: Life[] }> {
  const s = await scene(t)
  await s.db.pool.query('create table effect (run text, what text); create table tx_effect (run text)')
  const first = await lifeOf(s, 'lives', { at: Number.POSITIVE_INFINITY, when: 'before it is sent' }, fails)
  for (let round = 0; round < ROUNDS && (await count(s.db, 'from leasehold.job')) > 0; round++) {
    await liveOn(first)
    await othersAct(s, [first])
  }
  const { length } = first.mortal.statements
  const points = Array.from({ length }, (_, index) => index + 1).slice(-(last ?? length))
  const deaths = points.flatMap((at) => [
    { at, when: 'before it is sent' } as const,
    { at, when: 'before its reply' } as const,
  ])
  const lives: Life[] = []
  while (deaths.length > 0) {
    const dying = await Promise.all(
      deaths.splice(0, AT_ONCE).map((death) => lifeOf(s, `dies ${death.when} ${death.at}`, death, fails)),
    )
    lives.push(...dying)
    for (let round = 0; round < ROUNDS && !dying.every(({ mortal }) => mortal.isDead); round++) {
      await Promise.all(dying.map(liveOn))
      await othersAct(s, dying)
    }
    for (const { mortal } of dying) mortal.bury()
  }
  // One more process, which lives.
  const handlers = lives.flatMap(({ name }) => flowOf(name, s.db, fails).versionFor(() => false).handlers)
  for (let round = 0; round < ROUNDS && (await count(s.db, 'from leasehold.job')) > 0; round++) {
    await s.lh.drain(handlers)
    await othersAct(s, lives)
  }
  t.diagnostic(`${length} statements, ${lives.filter(({ mortal }) => mortal.isDead).length} deaths`)
  return { s, lives: [first, ...lives] }
}

test('a process dies before and after each statement of a run, and another one ends it with the same result', async (t) => {
  const { s, lives } = await sweep(t, false)
  const { rows: steps } = await s.db.pool.query(`select job_id::text, array_agg(distinct name order by name) as names,
    count(*) filter (where state = 'recorded')::int as ended, count(distinct (name, nth, type)) filter (where state = 'recorded')::int as once
    from leasehold.step group by 1`)
  const { rows: inTx } = await s.db.pool.query('select run, count(*)::int as n from tx_effect group by 1')
  const { rows: effects } = await s.db.pool.query('select run, array_agg(what) as what from effect group by 1')
  for (const { name, jobId } of lives) {
    const { status, result } = (await s.lh.get(jobId))!
    assert.deepEqual([status, result], ['completed', RESULT], name)
    const recorded = steps.find((row) => row.job_id === jobId)
    assert.deepEqual([recorded.names, recorded.ended], [STEPS, recorded.once], name)
    assert.equal(inTx.find((row) => row.run === name)?.n, 1, name)
    // Only the step in which it died may have been repeated.
    const what: string[] = effects.find((row) => row.run === name)?.what
    assert.deepEqual([...new Set(what)].toSorted(), ['a', 'p1', 'p2', 'third'], name)
    assert.ok(what.length <= 7 + 1, `${name}: ${what}`)
  }
  await nothingLeft(s)
})

test('a process dies before and after each statement that undoes a run, and another one undoes it, in reverse order', async (t) => {
  const { s, lives } = await sweep(t, true, 14)
  const { rows: undone } = await s.db.pool.query(`select job_id::text,
      array_agg(name order by place) filter (where type = 'compensation' and state = 'recorded') as names,
      array_agg(name order by place desc) filter (where type = 'step' and name in ('a', 'p 1', 'p 2')) as reverse
    from leasehold.step group by 1`)
  const { rows: effects } = await s.db.pool.query(
    `select run, array_agg(distinct what) as what, count(*)::int as n from effect where what like 'undo%' group by 1`,
  )
  for (const { name, jobId } of lives) {
    assert.equal((await s.lh.get(jobId))!.status, 'dead_letter', name)
    const { names, reverse } = undone.find((row) => row.job_id === jobId)!
    assert.deepEqual([names, names.length], [reverse, 3], name)
    const { what, n } = effects.find((row) => row.run === name)!
    assert.deepEqual(what.toSorted(), ['undo a', 'undo p1', 'undo p2'], name)
    assert.ok(n <= 4, `${name}: ${n}`)
  }
  await nothingLeft(s)
})

async function nothingLeft({ db }: Scene): Promise<void> {
  await nothingHeld(db)
  const { rows } = await db.pool.query('select queue, kind from leasehold.job')
  assert.deepEqual(rows, [])
}
