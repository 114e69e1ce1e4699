// A starter process: starts runs in transactions that commit, roll back or die, then does what is planned for each run: sends
// signals, cancels, pauses, starts it again. Started again, it continues each run behind the last action that was acknowledged. It
// ends on SIGTERM.
//
// What committed is in chaos.started and chaos.sent: rows of the transaction that started or sent.
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type pg from 'pg'
import { pauseRun, resumeRun, signal, start } from '../../../src/workflow/index.ts'
import { begin, nameOf, print } from '../../common/program.ts'
import { readWitness } from '../../common/witness.ts'
import type { Action, Plan, Step } from '../plan.ts'
import { leasehold, orders, pool, witness } from './process.ts'
import { chaosWorkflow, type RunInput } from './workflows.ts'

const AGAIN_MS = 250
const LOOK_EVERY_MS = 50
/** The run has ended. */
const ENDED = 'RUN_FINISHED'

const chaos = chaosWorkflow()
const plan = JSON.parse(readFileSync(orders.plan, 'utf8')) as Plan
const seat = orders.name.slice(0, orders.name.lastIndexOf('.') + 1)
/** How far an earlier process of this seat came with each run. */
const done = new Map<string, number>()
const begun = new Set<string>()
for (const { e, w, k } of readWitness(orders.directory, (file) => file.startsWith(seat))) {
  if (e === 'began') begun.add(w!)
  if (e === 'did') done.set(w!, (k as number) + 1)
}
const left = plan.steps.filter(({ name, starter, fate, actions }) => {
  const isOver = fate === 'commit' ? (done.get(name) ?? 0) > actions.length : begun.has(name)
  return starter === orders.starter && !isOver
})
let stopping = false
process.on('SIGTERM', () => {
  stopping = true
})

begin(witness)
print('ready')
while (!existsSync(orders.startFile) && !stopping) await wait(LOOK_EVERY_MS)
const startedAt = stopping ? 0 : Number(readFileSync(orders.startFile, 'utf8'))
await Promise.all(left.map(accompany))
if (!stopping) print('done')
while (!stopping) await wait(LOOK_EVERY_MS)
await leasehold.close()
await pool.end()
witness.write('left')

async function accompany(step: Step): Promise<void> {
  const at = startedAt + step.atMs
  await until(at)
  if (stopping) return
  witness.write('began', { w: step.name })
  const first = done.get(step.name) ?? 0
  const jobId = await untilDone(() => starts(step))
  if (jobId === undefined || step.fate !== 'commit') return
  if (first === 0) witness.write('did', { w: step.name, k: 0 })
  for (const [index, action] of step.actions.entries()) {
    // 0 is the start.
    const k = index + 1
    if (k < first) continue
    await until(at + action.afterMs)
    if ((await untilDone(() => acts(step, action, jobId))) === undefined) return
    witness.write('did', { w: step.name, k })
  }
}

async function until(at: number): Promise<void> {
  while (!stopping && Date.now() < at) await wait(Math.min(at - Date.now() + 1, 200))
}

/** Tries until there is an answer. Undefined: the process stops. */
async function untilDone<T>(attempt: () => Promise<T>): Promise<T | undefined> {
  while (!stopping) {
    try {
      return await attempt()
    } catch (error) {
      witness.write('failed', { error: nameOf(error), message: String(error).slice(0, 200) })
      await wait(AGAIN_MS)
    }
  }
  return undefined
}

/** The id of the job; for a run that is not to be, an empty text. */
async function starts(step: Step): Promise<string> {
  const { name, fate, program, holdMs, actions } = step
  const started = await within(async (tx) => {
    const { jobId, outcome } = await start(leasehold, chaos, { program }, { tx, runId: name })
    await tx.query('insert into chaos.started (run, process) values ($1, $2)', [name, orders.name])
    for (const action of actions)
      if (action.act === 'signal' && action.via === 'with start') await send(tx, name, action)
    await wait(holdMs)
    if (fate === 'die') {
      witness.write('dies', { w: name })
      process.kill(process.pid, 'SIGKILL')
    }
    return { jobId, outcome }
  }, fate)
  if (started === undefined) {
    witness.write('rolled back', { w: name })
    return ''
  }
  witness.write('started', { w: name, job: started.jobId, outcome: started.outcome })
  return started.jobId
}

async function acts({ name: run, program }: Step, action: Action, jobId: string): Promise<true> {
  switch (action.act) {
    case 'signal':
      for (let times = 0; times < (action.twice ? 2 : 1); times++) {
        const outcome = await signals(run, action)
        witness.write('signal', { w: run, name: action.name, i: action.i, outcome, times })
        if (outcome === ENDED) break
      }
      return true
    case 'mail':
      return mails(run, action.name)
    case 'undone signal':
      await within((tx) => finished(signal(leasehold, chaos, run, action.name, { i: -1 }, { tx })), 'rollback')
      witness.write('signal', { w: run, name: action.name, outcome: 'rolled back' })
      return true
    case 'cancel': {
      witness.write('asks', { w: run, what: 'cancel' })
      const outcome = await leasehold.cancel(jobId, { reason: 'operator', by: 'chaos' })
      if (outcome === 'busy') throw new Error('busy')
      witness.write('cancel', { w: run, outcome })
      return true
    }
    case 'pause':
    case 'resume': {
      const by = action.act === 'pause' ? pauseRun : resumeRun
      witness.write('operator', { w: run, outcome: await finished(by(leasehold, chaos, run, { by: 'chaos' })) })
      return true
    }
    case 'start again': {
      const { jobId: job, outcome } = await start(leasehold, chaos, { program }, { runId: run })
      witness.write('started', { w: run, job, outcome })
      return true
    }
    case 'start other': {
      const input: RunInput = { program, other: true }
      const conflict = (error: unknown) => {
        if (nameOf(error) !== 'IDEMPOTENCY_CONFLICT') throw error
        return 'conflict'
      }
      const outcome = await start(leasehold, chaos, input, { runId: run }).then((started) => started.outcome, conflict)
      witness.write('other', { w: run, outcome })
      return true
    }
  }
}

type Signal = Extract<Action, { act: 'signal' }>

async function signals(run: string, action: Signal): Promise<string> {
  if (action.via !== 'own') return (await within((tx) => send(tx, run, action)))!
  const idempotencyKey = String(action.i)
  return finished(signal(leasehold, chaos, run, action.name, { i: action.i }, { idempotencyKey }))
}

/** In the transaction, with a row that shows that it was sent. */
async function send(tx: pg.PoolClient, run: string, { name, i, via }: Signal): Promise<string> {
  const payload = { i }
  const idempotencyKey = String(i)
  if (via === 'sql') {
    const { rows } = await tx.query('select leasehold.signal($1, $2, $3, $4, $5) as outcome', [
      chaos.name,
      run,
      name,
      payload,
      idempotencyKey,
    ])
    return rows[0].outcome === 'finished' ? ENDED : rows[0].outcome
  }
  return finished(signal(leasehold, chaos, run, name, payload, { tx, idempotencyKey }))
}

/** Without a key. If the outcome is not known, it is not sent again: chaos.sent has it, or not. */
async function mails(run: string, name: string): Promise<true> {
  try {
    const outcome = await within(async (tx) => {
      const answer = await finished(signal(leasehold, chaos, run, name, { i: 1 }, { tx }))
      if (answer === 'sent') await noteSent(tx, run, name)
      return answer
    })
    witness.write('signal', { w: run, name, outcome })
  } catch (error) {
    witness.write('signal', { w: run, name, outcome: `unknown: ${nameOf(error)}` })
  }
  return true
}

async function noteSent(tx: pg.PoolClient, run: string, name: string): Promise<void> {
  await tx.query('insert into chaos.sent (run, name) values ($1, $2)', [run, name])
}

async function finished<T extends string>(answer: Promise<T>): Promise<T | typeof ENDED> {
  return answer.catch((error) => {
    if (nameOf(error) === ENDED) return ENDED
    throw error
  })
}

/** Undefined: it was rolled back, as planned. */
async function within<T>(
  use: (tx: pg.PoolClient) => Promise<T>,
  fate: Step['fate'] = 'commit',
): Promise<T | undefined> {
  const client = await pool.connect()
  let lost: Error | undefined
  try {
    await client.query('begin')
    const result = await use(client)
    await client.query(fate === 'rollback' ? 'rollback' : 'commit')
    return fate === 'rollback' ? undefined : result
  } catch (error) {
    lost = error as Error
    throw error
  } finally {
    client.release(lost)
  }
}
