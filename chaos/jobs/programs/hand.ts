// A process with a loop of its own: it claims by hand, renews by hand, and records each outcome. It writes the same lines
// as a worker. It ends on SIGTERM, after its jobs have ended or were released.
import { setTimeout as wait } from 'node:timers/promises'
import { Cancel, EffectUnknownError, Fatal, LeaseLostError, type ManualJob, Snooze } from '../../../src/index.ts'
import { nameOf, print } from '../../common/program.ts'
import type { Input } from '../workload.ts'
import { begin, type Held, KINDS, leasehold, orders, pool, runHandler, witness } from './process.ts'

const AT_ONCE = 6
const IDLE_MS = 100
/** Longer than any outage of a run, 200 ms apart. */
const TRIES = 50

const { leaseMs } = orders
/** As a worker does: it gives up before the lease can have expired. */
const MARGIN_MS = leaseMs / 10
const RENEW_EVERY_MS = leaseMs / 3

const stopping = new AbortController()
process.on('SIGTERM', () => stopping.abort(new Error('stopping')))

begin()
print('ready')
const running = new Set<Promise<void>>()
while (!stopping.signal.aborted) {
  const room = AT_ONCE - running.size
  const sentAt = performance.now()
  const jobs = room === 0 ? [] : await claimed(Math.min(room, 3))
  for (const job of jobs) {
    const done: Promise<void> = work(job, sentAt).finally(() => running.delete(done))
    running.add(done)
  }
  if (jobs.length === 0) await wait(IDLE_MS)
}
witness.write('stopping')
await Promise.all(running)
witness.write('left')
await leasehold.close()
await pool.end()

async function claimed(limit: number): Promise<ManualJob<Input>[]> {
  try {
    return await leasehold.claim([...KINDS.values()], { limit, lease: leaseMs })
  } catch (error) {
    witness.write('problem', { doing: 'claim', error: nameOf(error) })
    return []
  }
}

async function work(job: ManualJob<Input>, sentAt: number): Promise<void> {
  const lease = new AbortController()
  let deadline = sentAt + leaseMs - MARGIN_MS
  let isOver = false
  const lose = () => lease.abort(new LeaseLostError({ jobId: job.id, generation: job.generation } as never))
  const watch = setInterval(() => {
    if (performance.now() >= deadline) lose()
  }, 20)
  const renewals = (async () => {
    while (!isOver && !lease.signal.aborted) {
      await wait(RENEW_EVERY_MS)
      if (isOver || lease.signal.aborted) return
      const asked = performance.now()
      await job.renew().then(
        () => {
          deadline = asked + leaseMs - MARGIN_MS
        },
        (error) => {
          if (error instanceof LeaseLostError) lose()
          else witness.write('problem', { doing: 'renew', error: nameOf(error) })
        },
      )
    }
  })()
  /** The handler's transaction may have ended the job. */
  let isWithin = false
  const held: Held = {
    id: job.id,
    kind: job.kind,
    input: job.input,
    claimId: job.claimId,
    generation: job.generation,
    attempt: job.attempt,
    signal: AbortSignal.any([lease.signal, stopping.signal]),
    once: job.once,
    complete: async (tx, result) => {
      isWithin = true
      await job.complete(result, { tx })
    },
  }
  try {
    // This process may have been suspended since it asked.
    if (performance.now() >= deadline) lose()
    held.signal.throwIfAborted()
    const result = await runHandler(held)
    if (isWithin) tell(job, 'completed')
    else await record(job, () => job.complete(result).then(() => 'completed'), false)
  } catch (error) {
    await record(job, () => settle(job, error, isWithin), isWithin)
  } finally {
    isOver = true
    clearInterval(watch)
    await renewals
  }
}

async function settle(job: ManualJob<Input>, error: unknown, isWithin: boolean): Promise<string> {
  if (error instanceof EffectUnknownError || error instanceof Fatal) return job.bury(error).then(() => 'dead_letter')
  if (error instanceof Snooze) return job.snooze(error.delayMs).then(() => 'snoozed')
  if (error instanceof Cancel) return job.cancel(error.message).then(() => 'cancelled')
  if (error instanceof LeaseLostError || stopping.signal.aborted) return job.release().then(() => 'released')
  // Its transaction may have committed: then a refusal is right, and no outcome is reported.
  const next = await job.fail(isWithin ? new Error('complete(tx) did not commit') : error)
  return next === 'pending' ? 'retrying' : next
}

/** An outage passes. Until then the outcome is unknown; the library returns it when the call is repeated. */
async function record(job: ManualJob<Input>, send: () => Promise<string>, isWithin: boolean): Promise<void> {
  for (let tries = 1; tries <= TRIES; tries++) {
    try {
      return tell(job, await send())
    } catch (error) {
      if (error instanceof LeaseLostError) return tell(job, isWithin ? 'unknown' : 'refused')
      witness.write('problem', { doing: 'record', error: nameOf(error) })
    }
    await wait(200)
  }
}

function tell(job: ManualJob<Input>, outcome: string): void {
  witness.write('reported', { outcome, job: job.id, gen: job.generation, attempt: job.attempt, byHand: true })
}
