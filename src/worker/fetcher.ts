/**
 * The one fetcher of a worker: decides when to claim, from where, and how much.
 *
 * While claims come back full there is more to do, and the next is sent as soon as there is demand. A short one means that
 * the queues are empty: then it is time to wait, for a wake-up or for the poll interval, whichever is first.
 *
 * Not every idle worker answers every wake-up (eagerness.ts). One that finds more than it can take calls the others (burst.ts).
 *
 * Suspects (jobs whose worker died) are claimed into an empty worker only, so that one that kills its process takes no other job
 * along (decisions/0007). When some wait, the worker claims nothing until what it holds is done, then works off suspects, for one
 * lease at most. If handlers take longer than a lease, a single suspect is claimed beside them.
 */
import { Alarm, monotonicMs } from '../core/timer.ts'
import { maybeSent } from '../db/session.ts'
import { claimSuspects, newClaimId, suspectsWait } from '../jobs/claim.ts'
import type { ClaimedJob, ClaimId } from '../jobs/job.ts'
import { ScanCursors } from '../jobs/scan-cursors.ts'
import { Loop } from '../runtime/loop.ts'
import { Burst } from './burst.ts'
import { Eagerness } from './eagerness.ts'
import type { ClaimMode, FetcherOptions, LastClaim } from './fetcher-options.ts'
import type { ClaimDemand } from './kind-slots.ts'

export const SUSPECTS_AT_ONCE = 16
/** While the desk is being cleared: how often to see whether others have taken them meanwhile. */
const STILL_WAIT_MS = 2_000

export class Fetcher {
  readonly #options: FetcherOptions
  readonly #cursors: ScanCursors
  readonly #loop: Loop
  readonly #burst: Burst
  #mode: ClaimMode = { for: 'everyone' }
  /** Nothing is left to claim, as far as the last look could see. */
  #empty = false
  #claimed = 0
  #hasLookedForSuspects = false
  #isRegistered = false
  #hears = false
  readonly #eagerness: Eagerness
  #isWoken = false
  #isClaiming = false
  /** Of the claim under way. */
  #answered: Promise<unknown> | undefined
  #linesAreStale = false
  #freedMeanwhile = false // A job ended while a claim was under way.
  readonly #later = new Alarm(() => this.#claimNow())
  #answersLater = false

  constructor(options: FetcherOptions) {
    this.#options = options
    this.#cursors = new ScanCursors(options.queues)
    this.#cursors.looksAtAll = options.until === 'once'
    this.#eagerness = new Eagerness(options.pollMs)
    this.#burst = new Burst(options.lane, options.queues, options.pollMs, () => options.slots.handlerMs)
    this.#loop = new Loop(() => this.#tick(), options.events)
    options.turns.onLeaving = () => {
      if (this.#answersLater) this.#claimNow()
    }
    options.runner.onFreed = () => this.#slotsFreed()
    options.runner.onLetIn = (completed) => {
      this.#cursors.letIn(completed)
      this.#claimNow()
    }
  }

  start(): void {
    this.#loop.start()
  }

  /** Claims no more. Resolves when the claim under way has been answered. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    this.#answerNoMore()
    await this.#burst.stop().catch(this.#options.events.problem)
  }

  /** A producer has put work into this queue, in these of its lines. */
  wake(queue: string, lines?: readonly number[]): void {
    if (lines === undefined && this.#options.ring.lines !== undefined) this.#cursors.lookFromStart()
    const mine = (lines ?? [0]).filter((line) => this.#cursors.walks({ queue, line }))
    for (const line of mine) this.#cursors.notified(queue, line)
    if (mine.length === 0) return
    if (this.#options.ring.lines === undefined) this.#burst.watch.heard(queue)
    this.#isWoken = true
    const { turns, slots } = this.#options
    const onlyThisWorkerCan = mine.some((line) => line !== 0)
    const afterMs = onlyThisWorkerCan ? 0 : Math.max(this.#eagerness.answerAfterMs(), turns.waitMs(slots.holdsRuns))
    if (afterMs === 0) this.#claimNow()
    else if (!this.#answersLater && afterMs < Number.POSITIVE_INFINITY) this.#claimAfter(afterMs)
  }

  /** There is more in this queue than another worker can take. */
  help(queue: string): void {
    if (this.#burst.isOn) return
    this.#cursors.notified(queue)
    this.#isWoken = true
    this.#claimNow()
  }

  /** The ring has changed. */
  linesChanged(): void {
    this.#linesAreStale = true
    this.#claimNow()
  }

  /** Resolves when the claim under way has been answered, if any. */
  async claimsAnswered(): Promise<void> {
    await this.#answered?.catch(() => {})
  }

  /** There may be work anywhere. */
  lookNow(): void {
    this.#cursors.lookFromStart()
    this.#claimNow()
  }

  #claimNow(): void {
    this.#answerNoMore()
    this.#empty = false
    this.#loop.nudge()
  }

  /** Whether this worker is notified of new work. Work that was enqueued before it has to look for. */
  setHears(hears: boolean): void {
    this.#hears = hears
    this.#cursors.isNotified = hears
    if (hears) this.#burst.isToJoin = true
    if (hears) this.lookNow()
  }

  /** So many workers hear what this one hears. */
  setFleet(workers: number): void {
    this.#eagerness.fleet = workers
  }

  /** A job is done with, so there may be demand. */
  #slotsFreed(): void {
    // The claim under way will show whether there is anything for it.
    this.#freedMeanwhile = this.#isClaiming
    if (this.#isClaiming) return
    const { slots, runner } = this.#options
    // A worker that is notified of new work need not look again when its last job ends.
    const isIdle = slots.held === 0 && (!this.#hears || this.#mode.for === 'suspects')
    const mayWant = this.#mode.for === 'everyone' && !this.#empty
    if (isIdle || (mayWant && slots.wantsMore() && runner.takesMore)) this.#loop.nudge()
  }

  /** It clears its desk for suspects, or works on them. */
  get isForSuspects(): boolean {
    return this.#mode.for === 'suspects'
  }

  /** Suspects wait to be claimed. */
  suspectsWait(): void {
    if (this.#mode.for === 'suspects') return
    this.#mode = { for: 'suspects', since: monotonicMs(), working: false }
    this.#loop.nudge()
  }

  /** Or along with completions that leave before. */
  #claimAfter(ms: number): void {
    this.#answersLater = true
    this.#later.set(monotonicMs() + ms)
  }

  #answerNoMore(): void {
    this.#answersLater = false
    this.#later.set(Number.POSITIVE_INFINITY)
  }

  async #tick(): Promise<number> {
    if (!this.#isRegistered) await this.#options.register()
    this.#isRegistered = true
    if (this.#burst.isToJoin) await this.#burst.join(() => this.#next())
    return this.#next()
  }

  async #next(): Promise<number> {
    const { slots, runner, until } = this.#options
    if (until === 'once' && this.#claimed > 0) {
      if (slots.held === 0) this.#nothingLeft()
      return Number.POSITIVE_INFINITY
    }
    if (this.#mode.for === 'suspects') return this.#suspects(this.#mode)
    this.#empty = false
    const demand = runner.takesMore ? slots.demand() : undefined
    if (demand === undefined) return Number.POSITIVE_INFINITY
    this.#isClaiming = true
    this.#freedMeanwhile = false
    return this.#claimAll(demand).finally(() => {
      this.#isClaiming = false
    })
  }

  async #claimAll(first: ClaimDemand): Promise<number> {
    const { slots, turns } = this.#options
    let last = await this.#claim(first)
    for (let demand = slots.demand(first); last.more && demand !== undefined; demand = slots.demand(demand))
      last = await this.#claim(demand)
    if (last.more) {
      await this.#burst.goesOn(last, this.#eagerness.isAlone)
      return 0
    }
    // What was short from a mark, or in a slice, may not be from the beginning.
    if (!last.nothingElse && this.#cursors.lookIsDue()) return 0
    if (await this.#burst.isOver(this.#hears && this.#eagerness.isAlone)) {
      this.#cursors.lookFromStart()
      return 0
    }
    turns.steadyMs = this.#burst.watch.distanceMs
    if (turns.steadyMs !== undefined) this.#claimAfter(turns.waitMs(slots.holdsRuns))
    // Of a kind that was not asked for there may be more, as soon as one of its jobs has ended.
    this.#empty = last.everyKind
    if (!last.everyKind && this.#freedMeanwhile) return 0
    if (slots.held === 0 && last.nothingElse) this.#nothingLeft()
    const pollMs = Math.min(this.#options.pollMs * (0.75 + 0.5 * Math.random()), this.#burst.watch.claimsInMs)
    // A wake-up that came too soon after a look for another is not forgotten until the next poll.
    return last.nothingElse ? pollMs : Math.min(pollMs, this.#cursors.lookDueInMs())
  }

  async #claim(demand: ClaimDemand): Promise<LastClaim> {
    const { turns, worker, leaseMs, slots, runner, until } = this.#options
    const once = until === 'once'
    const limit = once ? Math.min(demand.limit, slots.atOnce - this.#claimed) : demand.limit
    const everyKind = demand.kinds.length === this.#options.kinds.length
    this.#setLines()
    for (const queue of this.#burst.watch.queues) this.#cursors.notified(queue)
    const asked = this.#cursors.next(limit, everyKind ? undefined : new Set(demand.queues))
    const isAnswer = this.#isWoken
    this.#isWoken = false
    if (asked.fromStart) this.#answerNoMore()
    const claimId = newClaimId()
    const sentAt = monotonicMs()
    // One batch and no more: no queue has a share.
    const [share, runLength] = once ? [limit, 1] : [asked.share, slots.runLength]
    const claiming = turns.claim({ claimId, worker, kinds: demand.kinds, limit, leaseMs, share, runLength }, asked.walk)
    this.#answered = claiming
    const claimed = await claiming.catch((error) => {
      this.#cursors.failed(asked, monotonicMs() - sentAt)
      if (maybeSent(error)) runner.replyLost(claimId)
      throw error
    })
    const { jobs } = claimed
    this.#hold(claimId, sentAt, jobs)
    if (jobs.length > 0) this.#eagerness.found()
    else if (isAnswer) this.#eagerness.inVain()
    slots.noteRoundTrip(monotonicMs() - sentAt)
    const { more, nothingElse } = this.#cursors.learn(asked, { ...claimed, limit })
    // In a queue on the ring no other worker could help, and a busy one must not silence the others.
    const queues = [...new Set(jobs.filter(({ line }) => line === 0).map(({ queue }) => queue))]
    this.#burst.watch.claimed(queues, jobs.length)
    return { more: more && !(once && this.#claimed >= slots.atOnce), nothingElse, everyKind, queues, limit }
  }

  /** The ring may have changed since the last claim. */
  #setLines(): void {
    if (!this.#linesAreStale) return
    this.#linesAreStale = false
    const { lines } = this.#options.ring
    this.#cursors.setLines(lines ?? this.#options.queues.map((queue) => ({ queue, line: 0 })))
  }

  /** First of all: if anything goes wrong afterwards, the jobs are held, and are renewed or released. */
  #hold(claimId: ClaimId, sentAt: number, jobs: readonly ClaimedJob[]): void {
    if (jobs.length === 0) return
    this.#claimed += jobs.length
    this.#hasLookedForSuspects = this.#options.until === 'once'
    this.#options.runner.claimed(claimId, sentAt, jobs)
  }

  async #suspects(mode: Extract<ClaimMode, { for: 'suspects' }>): Promise<number> {
    const { lane, worker, leaseMs, slots, runner, concurrency, kinds, queues, ring } = this.#options
    const alone = slots.held === 0
    const patienceMs = mode.since + leaseMs - monotonicMs()
    if (!alone && patienceMs > 0) {
      if (mode.working || (await suspectsWait(lane, queues, kinds, ring.owned)))
        return Math.min(patienceMs, STILL_WAIT_MS)
      return this.#backToEveryone() // Others were quicker.
    }
    if (mode.working && patienceMs <= 0) return this.#backToEveryone()
    const claimId = newClaimId()
    const sentAt = monotonicMs()
    const limit = alone ? Math.min(concurrency, SUSPECTS_AT_ONCE, slots.smallestConcurrency) : 1
    const claiming = claimSuspects(lane, { claimId, worker, kinds, limit, leaseMs }, queues, ring.owned)
    this.#answered = claiming
    const jobs = await claiming.catch((error) => {
      if (maybeSent(error)) runner.replyLost(claimId)
      throw error
    })
    this.#hold(claimId, sentAt, jobs)
    if (jobs.length === 0 || !alone) return this.#backToEveryone()
    mode.working = true
    return Math.max(0, patienceMs)
  }

  #nothingLeft(): void {
    if (this.#options.until === 'stopped') return
    if (this.#hasLookedForSuspects) this.#options.onExhausted()
    this.#hasLookedForSuspects = true
    this.suspectsWait()
  }

  #backToEveryone(): number {
    this.#mode = { for: 'everyone' }
    this.#cursors.lookFromStart()
    return 0
  }
}
