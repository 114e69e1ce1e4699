/**
 * Claim and finish by hand, for those who bring their own loop. Nothing is renewed unless asked to, and every outcome
 * throws LeaseLostError when another worker has the job by now.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { backoffMs } from '../core/backoff.ts'
import { checkInteger } from '../core/check.ts'
import { type Duration, durationMs } from '../core/duration.ts'
import { DeadlineError, EffectUnknownError, InvalidInputError, LeaseLostError } from '../core/errors.ts'
import type { Kind } from '../core/kind.ts'
import { checkOptions } from '../core/options.ts'
import { parseInput } from '../core/schema.ts'
import { Cancel } from '../core/steering.ts'
import { sleep } from '../core/timer.ts'
import type { Connection } from '../db/connection.ts'
import { Lane } from '../db/lane.ts'
import { PooledStatements } from '../db/pooled.ts'
import type { Tx } from '../db/tx.ts'
import { inTurn } from '../db/tx-line.ts'
import { effectKey } from '../effects/key.ts'
import { assertLease } from '../effects/lease.ts'
import { Effects, type Once } from '../effects/once.ts'
import { claim, claimSuspects, newClaimId, type OwnedBuckets, releaseClaim, renew } from '../jobs/claim.ts'
import { type Completion, complete, completeWithin } from '../jobs/completion.ts'
import { type ClaimedJob, type ClaimId, type JobId, type Lease, leaseOf, type Worker } from '../jobs/job.ts'
import { progress, type Recorded, recorded, type Settlement, settle, wasRecorded } from '../jobs/outcome.ts'
import { everyStart, type Walk } from '../jobs/scan-walk.ts'
import { Events } from './events.ts'
import { ManualDuties } from './manual-duties.ts'
import { announceDeadLetter } from './outcome-events.ts'
import { Registration } from './registration.ts'
import { UnownedLines } from './unowned-lines.ts'

const BUSY_AGAIN_MS = 20
const BUSY_AT_MOST = 250
/** Closing a Leasehold waits this long for a database that does not answer. */
const GOODBYE_MS = 2_000

export interface ClaimOptions {
  /** Default: 1, at most 1,000. */
  readonly limit?: number
  /** Default: 30s. */
  readonly lease?: Duration
}

type Unleased<Item> = Item extends unknown ? Omit<Item, keyof Lease> : never

/** A job claimed by hand. One of its outcomes counts; a second throws LeaseLostError. */
export class ManualJob<Output = unknown> {
  readonly id: JobId
  readonly kind: string
  readonly claimId: ClaimId
  readonly generation: number
  readonly attempt: number
  readonly maxAttempts: number
  readonly input: Output
  /** As in a handler. What it throws is yours to record: bury(error) if it is an EffectUnknownError. */
  readonly once: Once
  readonly #claimed: ClaimedJob
  readonly #lane: Lane
  readonly #worker: Worker
  readonly #leaseMs: number
  readonly #kind: Kind
  /** An outcome was sent, and its reply was lost. */
  #uncertain = false
  /** Calls of complete with `tx` that may have ended the job. */
  #completions = 0

  constructor(lane: Lane, worker: Worker, leaseMs: number, claimed: ClaimedJob, kind: Kind, input: Output) {
    this.#lane = lane
    this.#worker = worker
    this.#claimed = claimed
    this.#leaseMs = leaseMs
    this.#kind = kind
    this.id = claimed.jobId
    this.kind = claimed.kind
    this.claimId = claimed.claimId
    this.generation = claimed.generation
    this.attempt = claimed.attempt
    this.maxAttempts = claimed.maxAttempts
    this.input = input
    this.once = new Effects(lane, claimed, { isCompleted: () => this.#completions > 0 }).once
  }

  /** For a service that takes idempotency keys: the same on every attempt, another for each job and name. */
  effectKey(name: string): string {
    return effectKey(this.#claimed, name)
  }

  /** Holds the lease until your transaction ends, or throws LeaseLostError. */
  async assertLease(tx: Tx): Promise<void> {
    const lane = this.#lane.within(tx)
    await inTurn(tx, () => assertLease(lane, this.#lease))
  }

  /** Done, with this result. With `tx`, done exactly when that transaction commits. */
  async complete(result?: unknown, options: { readonly tx?: Tx } = {}): Promise<void> {
    checkOptions('complete', options, ['tx'])
    const item = { ...this.#lease, runFrom: this.#claimed.runFrom, result, keepMs: this.#kind.keepMs }
    if (options.tx !== undefined) return this.#completeWithin(options.tx, item)
    await this.#untilNotBusy('complete', async () => {
      const { refused, busy } = await complete(this.#lane, this.#worker, [item])
      return refused.length > 0 ? 'refused' : busy.length > 0 ? 'busy' : 'completed'
    })
  }

  /** A failed attempt: again after the kind's backoff, or a dead letter when it was the last. */
  async fail(error: unknown): Promise<'pending' | 'dead_letter' | 'cancelled'> {
    const answer = await this.#settle({ verb: 'fail', error, delayMs: backoffMs(this.attempt, this.#kind.backoff) })
    return answer === 'dead_letter' || answer === 'cancelled' ? answer : 'pending'
  }

  /** A dead letter now. */
  async bury(error: unknown): Promise<void> {
    const reason = error instanceof EffectUnknownError ? 'effect_unknown' : 'fatal'
    await this.#settle({ verb: 'bury', error, reason })
  }

  /** Again after this long; the attempt is not spent. */
  async snooze(delay: Duration): Promise<void> {
    await this.#settle({ verb: 'snooze', delayMs: durationMs('delay', delay) })
  }

  /** As if never claimed. */
  async release(): Promise<void> {
    await this.#settle({ verb: 'release' })
  }

  /** No longer wanted. The reason is kept with the job. */
  async cancel(reason?: string): Promise<void> {
    await this.#settle({ verb: 'cancel', ...(reason === undefined ? {} : { error: new Cancel(reason) }) })
  }

  async progress(note: unknown): Promise<void> {
    if ((await progress(this.#lane, this.#lease, note)) === 'refused') throw new LeaseLostError(this.#lease)
  }

  /** Extends the lease of the whole claim, of which this job is a part. */
  async renew(): Promise<void> {
    const { lost } = await renew(this.#lane, this.#worker, [this.claimId], this.#leaseMs)
    if (lost.length > 0) throw new LeaseLostError(this.#lease)
  }

  async #completeWithin(tx: Tx, item: Completion): Promise<void> {
    const lane = this.#lane.within(tx)
    this.#completions++
    await inTurn(tx, () => completeWithin(lane, this.#worker, item)).catch((error) => {
      if (error instanceof LeaseLostError) this.#completions--
      throw error
    })
  }

  get #lease() {
    return leaseOf(this.#claimed)
  }

  async #settle(outcome: Unleased<Settlement>): Promise<Recorded | 'pending'> {
    const item = { ...this.#lease, ...outcome } as Settlement
    return this.#untilNotBusy(item.verb, async () => (await settle(this.#lane, this.#worker, [item]))[0]!.outcome)
  }

  async #untilNotBusy(tried: string, send: () => Promise<string>): Promise<Recorded | 'pending'> {
    for (let tries = 0; tries < BUSY_AT_MOST; tries++) {
      const answer = await send().catch((error) => {
        this.#uncertain = true
        throw error
      })
      if (answer === 'refused') return this.#recordedBefore(tried)
      if (answer !== 'busy') return answer as Recorded
      await sleep(BUSY_AGAIN_MS)
    }
    throw new DeadlineError(`Waiting for a lock on job ${this.id}`, BUSY_AGAIN_MS * BUSY_AT_MOST)
  }

  /** After a lost reply a refusal may mean that it was done the first time (decisions/0009). */
  async #recordedBefore(tried: string): Promise<Recorded | 'pending'> {
    const [answer] = this.#uncertain ? await recorded(this.#lane, [this.#lease]) : []
    if (wasRecorded(tried, answer)) return answer!
    // A completed job that is not kept leaves no trace. Any other job without one is gone, lost in a failover.
    if (answer === 'unknown' && tried === 'complete' && this.#kind.keepMs === false) return answer
    throw new LeaseLostError(this.#lease)
  }
}

/**
 * The claims by hand of one Leasehold: one worker to the database, registered before its first claim.
 *
 * One for all calls, and not a fresh one each: the registry has a row per process, and the sweep blames a job for a crash only
 * if its worker certainly held nothing else (decisions/0007). Of two jobs that a process had claimed by two calls when it died,
 * neither is blamed at first, since either may have killed it; with a worker per call both were. The other side of it: claims
 * by hand stay in the ledger until the sweep finds their lease expired, so a job that was alone is not certainly alone if its
 * process has finished others within the last lease. It is then blamed at its third crash, as it is in a worker.
 */
export class ManualWorker {
  readonly #lane: Lane
  readonly #worker: Worker = { id: randomUUID(), label: `${hostname()}:${process.pid}`.slice(-200) }
  readonly #registration: Registration
  readonly #events: Events
  readonly #duties: ManualDuties
  /** By the queues of a call. */
  readonly #unowned = new Map<string, UnownedLines>()

  constructor(connection: Connection) {
    const { lane, log, pool, schema, prepare } = connection
    this.#lane = lane
    this.#events = new Events(log, this.#worker.label)
    this.#duties = new ManualDuties(lane, this.#events)
    const goodbye = new Lane(new PooledStatements(pool, GOODBYE_MS), { schema, prepare })
    this.#registration = new Registration({
      lane,
      worker: this.#worker,
      mode: 'by_hand',
      goodbye,
    })
  }

  /** Claims jobs of these kinds. One whose input no longer fits its schema becomes a dead letter and is not returned. */
  async claim(kinds: readonly Kind[], options: ClaimOptions = {}): Promise<ManualJob[]> {
    checkOptions('claim', options, ['limit', 'lease'])
    const limit = checkInteger('claim.limit', options.limit ?? 1, 1, 1_000)
    const leaseMs = durationMs('claim.lease', options.lease ?? '30s', 1)
    await this.#registration.renew(kinds)
    const claimed = await this.#claim(kinds, limit, leaseMs)
    this.#duties.afterClaim(kinds, claimed.length === 0)
    const jobs: ManualJob[] = []
    for (const job of claimed) {
      const kind = kinds.findLast(({ name }) => name === job.kind)!
      const stored: unknown = JSON.parse(job.payload)
      try {
        const input = kind.schema === undefined ? stored : await parseInput(kind.name, kind.schema, stored)
        jobs.push(new ManualJob(this.#lane, this.#worker, leaseMs, job, kind, input))
      } catch (error) {
        await this.#refuse(job, kind, error)
      }
    }
    return jobs
  }

  /** Notes in the registry that there will be no more claims. If that fails, it shows when the last one was. */
  async stop(): Promise<void> {
    await this.#duties.stop(GOODBYE_MS)
    await this.#registration.stopped().catch(() => {})
  }

  async #claim(kinds: readonly Kind[], limit: number, leaseMs: number): Promise<ClaimedJob[]> {
    const [lane, worker] = [this.#lane, this.#worker]
    const queues = kinds.map(({ queue }) => queue)
    const claimId = newClaimId()
    const names = [...new Set(kinds.map(({ name }) => name))]
    const request = { claimId, worker, kinds: names, limit, leaseMs }
    const { walk, owned } = await this.#whatHasNoOwner(queues)
    try {
      const ordinary = () => claim(lane, request, walk)
      const suspects = () => claimSuspects(lane, request, queues, owned)
      // Suspects come last, but not never: now and then they come first.
      const [first, second] = this.#duties.suspectsWait() ? [suspects, ordinary] : [ordinary, suspects]
      const some = await first()
      return some.length > 0 ? some : await second()
    } catch (error) {
      // The jobs that it took are not ours to run. If this reply is lost, too, the sweep reclaims them.
      await releaseClaim(lane, worker, claimId).catch(() => {})
      throw error
    }
  }

  /** On the ring, the jobs of a key are its owner's, as long as there is one. */
  async #whatHasNoOwner(queues: readonly string[]): Promise<{ walk: Walk; owned: OwnedBuckets | undefined }> {
    const name = JSON.stringify([...new Set(queues)].sort())
    const unowned = this.#unowned.get(name) ?? new UnownedLines(this.#lane, queues)
    this.#unowned.set(name, unowned)
    await unowned.refresh()
    const { lines, owned } = unowned
    if (lines === undefined) return { walk: everyStart(queues), owned }
    return { walk: { queues: lines.map(({ queue }) => queue), lines: lines.map(({ line }) => line) }, owned }
  }

  /** As in a worker: a schema that fails for another reason than the input may do better later. */
  async #refuse(job: ClaimedJob, kind: Kind, error: unknown): Promise<void> {
    const isInput = error instanceof InvalidInputError
    const delayMs = backoffMs(job.attempt, kind.backoff)
    const [settled] = await settle(this.#lane, this.#worker, [
      isInput ? { ...job, verb: 'bury', error, reason: 'invalid_input' } : { ...job, verb: 'fail', error, delayMs },
    ])
    if (settled!.outcome !== 'dead_letter') return
    announceDeadLetter(this.#events, { ...job, error, reason: isInput ? 'invalid_input' : 'attempts_exhausted' })
  }
}
