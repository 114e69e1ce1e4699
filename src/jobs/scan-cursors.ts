/**
 * Where the next claim starts to walk, and how much one queue may have of it.
 *
 * A claim from the beginning of a queue steps over every index entry that was claimed or finished since the oldest
 * transaction still open anywhere. So a claim starts from a mark: for each queue and priority, the first row of the batch
 * taken there last. Work that appears behind a mark (a transaction that committed late, a released job) is found by a
 * look from the beginning: every 250 ms, and at once after a short batch or a wake-up, but looks take no more than a
 * thirtieth of the time, however slow a long transaction elsewhere makes them.
 *
 * Once a queue was seen empty the next claim starts a little before that time instead, by two seconds while that is cheap. It
 * finds new work, and what was committed late by less. So a worker that is notified of new work answers with one claim, and looks
 * from the beginning 250 ms after the last look. Without that, every second claim of a trickle was a look in vain.
 *
 * Queues take turns. One that had more than its share when it was last asked, or was never asked, counts as deep, and each
 * gets as much of a claim as there are deep ones. Claims between looks ask the deep queues and a few of the others: from
 * their mark, from when they were last seen empty, or, once, from the beginning. A look that was full before it reached the
 * last queue goes on there, as soon as its cost allows.
 *
 * Worst case for work behind a mark, on a worker that keeps asking: 250 ms, or 30 × the cost of a look up to 30 s. The cost
 * is what the server measured, without the way there and back, and the lower of the last two looks, so that one stall is
 * not taken for the price of looking. A look that takes seconds, or fails for it, is cut: the next ones ask for jobs by the
 * time they have been due, the latest first, slice by slice, until all were seen (decisions/0010).
 */
import type { ClaimedJob } from './job.ts'
import { type Line, nameOf } from './lines.ts'
import { enough, JOBS_OF_A_LINE, linesFor, mayBeDeep } from './scan-lines.ts'
import { bySpot, newPlace, type Place } from './scan-place.ts'
import { Slices } from './scan-slices.ts'
import { PRIORITIES, type ScanStart, type Walk } from './scan-walk.ts'
import { isEarlier, type StoredTime, textBefore, timeText } from './stored-time.ts'

const LOOK_EVERY_MS = 250
const LOOK_COST_FACTOR = 30
const LONGEST_WAIT_MS = 30_000
/** A queue was empty when it was looked at, but for transactions that had begun and were committed up to so much later. */
const LATE_BY_MS = 2_000
const LATE_BY_AT_LEAST_MS = 10
/** A walk that takes longer, and longer for each job it finds, started too early. */
const WALK_MS = 0.5
const WALK_MS_A_JOB = 0.02
/** How many queues a claim between looks asks, however many are served. */
const DEEP_AT_ONCE = 64
const OTHERS_AT_ONCE = 8

export interface Asked {
  readonly walk: Walk
  readonly fromStart: boolean
  /** A look that goes on with the next one. */
  readonly isPart: boolean
  readonly everyKind: boolean
  /** From one queue and priority at most. */
  readonly share: number
  /** In the order of the walk. */
  readonly places: readonly Place[]
}

export interface Answer {
  /** In the order of their priority and age. */
  readonly jobs: readonly ClaimedJob[]
  readonly limit: number
  /** Of the server, to find them. */
  readonly walkMs: number
  /** The claim's time, by the clock of the database. */
  readonly at?: StoredTime | undefined
  /** Found more than it returned: the inputs came to too much. */
  readonly cut?: boolean
}

export class ScanCursors {
  #places: readonly Place[] = []
  #byLine: ReadonlyMap<string, Place> = new Map()
  readonly #now: () => number
  readonly #slices = new Slices()
  // Looks take turns of their own: if one happened on every second claim, a shared turn would favour one queue for ever.
  // They start anywhere, so that the workers of a fleet do not all start with the same queue.
  #deepTurn: number
  #otherTurn: number
  #lookTurn: number
  /** Queues that this worker was told of. */
  readonly #notified = new Set<Place>()
  // The first look may find cold caches, so what it took proves nothing.
  #lookCostsMs: [number, number] = [0, 0]
  #lookedAt = Number.NEGATIVE_INFINITY
  #hurry = true
  #lateByMs = LATE_BY_MS
  /** Whether this worker is notified of new work. */
  isNotified = false
  /** A look asks all lines, also if a few would do. */
  looksAtAll = false

  /** `now` is monotonic, in milliseconds. */
  constructor(queues: readonly string[], now: () => number = () => performance.now(), random = Math.random) {
    this.setLines([...new Set(queues)].map((queue) => ({ queue, line: 0 })))
    this.#now = now
    const anywhere = () => Math.floor(random() * this.#places.length)
    this.#deepTurn = anywhere()
    this.#otherTurn = anywhere()
    this.#lookTurn = anywhere()
  }

  /** Walks these lines from now on. What is known of those that were walked before is kept. */
  setLines(lines: readonly Line[]): void {
    this.#places = lines.map((line) => this.#byLine.get(nameOf(line)) ?? newPlace(line))
    this.#byLine = new Map(this.#places.map((place) => [nameOf(place), place]))
    for (const place of this.#notified) if (!this.#byLine.has(nameOf(place))) this.#notified.delete(place)
    this.#hurry = true
  }

  /** What to ask for next: up to `limit` jobs, of these queues alone if they are given. */
  next(limit = 1, among?: ReadonlySet<string>): Asked {
    const fromStart = this.lookIsDue()
    const isAsked = ({ queue }: Place) => among === undefined || among.has(queue)
    const all = fromStart ? this.#from(this.#lookTurn++).filter(isAsked) : []
    const places = !fromStart ? this.#some(isAsked, limit) : this.looksAtAll ? all : enough(all, limit)
    // From now on, so that a look that fails is not tried again and again.
    if (fromStart) this.#lookedAt = this.#now()
    const deep = places.filter((place) => place.deep || !place.known)
    const least = deep.every(({ line }) => line !== 0) ? JOBS_OF_A_LINE : 1
    const share = Math.min(limit, Math.max(least, Math.ceil(limit / Math.max(1, deep.length))))
    const look = () => ({
      queues: places.map(({ queue }) => queue),
      lines: places.map(({ line }) => line),
      dueForMs: this.#slices.next,
    })
    const walk = fromStart ? look() : this.#spotsOf(places)
    return { walk, fromStart, isPart: places.length < all.length, everyKind: among === undefined, share, places }
  }

  /**
   * What the claim returned. `more`: there may be more where that came from. `nothingElse`: it has seen everything from the
   * beginning, and taken what there was.
   */
  learn(asked: Asked, answer: Answer): { readonly more: boolean; readonly nothingElse: boolean } {
    const { jobs, limit, walkMs, at, cut = false } = answer
    const full = jobs.length >= limit || cut
    const last = full ? this.#lastReached(asked, jobs) : asked.places.length - 1
    const goesOn = asked.isPart || (asked.fromStart && last < asked.places.length - 1)
    const deep = this.#setMarks(asked, jobs, full)
    const sawEmpty = !full && at !== undefined && asked.everyKind && !isSlice(asked)
    asked.places.forEach((place, index) => {
      if (index > last) return
      this.#notified.delete(place)
      place.known = true
      place.deep = deep.has(place) || (full && index === last)
      if (place.deep) place.emptyAt = undefined
      else if (sawEmpty) place.emptyAt = at
    })
    if (full || asked.isPart) this.#nextTurn(asked, last)
    const more = full || deep.size > 0 || (!asked.fromStart && asked.everyKind && this.#hasLinesToAsk())
    const sawAll = asked.fromStart && this.#looked(asked, walkMs, jobs.length, more)
    if (!asked.fromStart) this.#walked(walkMs, jobs.length)
    if (!full && !(this.isNotified && sawEmpty)) this.#hurry = true
    if (goesOn) this.#hurry = true
    return { more, nothingElse: sawAll && !more && !asked.isPart }
  }

  /** No answer came. */
  failed(asked: Asked, afterMs: number): void {
    if (!asked.fromStart) return
    this.#lookCostsMs = [this.#lookCostsMs[1], Math.max(this.#lookCostsMs[1], afterMs)]
    this.#slices.failed(afterMs)
  }

  /** Something may have appeared behind the cursors: a change of the ring, a call for help. */
  lookFromStart(): void {
    this.#hurry = true
  }

  /** Something is new in this line. */
  notified(queue: string, line = 0): void {
    const place = this.#byLine.get(nameOf({ queue, line }))
    if (place !== undefined) this.#notified.add(place)
    // A line that was asked before is asked from its mark. What is new lies beyond that, unless it was committed late.
    const isAhead = place !== undefined && (place.emptyAt !== undefined || (place.known && line !== 0))
    if (!this.isNotified || !isAhead) this.#hurry = true
  }
  /** Completions of this worker have let jobs in. They are available from now on, so they lie beyond the marks. */
  letIn(lines: Iterable<Line>): void {
    for (const line of lines) {
      const place = line.line === 0 ? undefined : this.#byLine.get(nameOf(line))
      if (place !== undefined) this.#notified.add(place)
    }
  }

  /** Whether it walks this line. */
  walks(line: Line): boolean {
    return this.#byLine.has(nameOf(line))
  }

  /** Whether the next claim will be a look from the beginning. */
  lookIsDue(): boolean {
    return this.lookDueInMs() <= 0
  }

  lookDueInMs(): number {
    const cost = Math.min(LOOK_COST_FACTOR * Math.min(...this.#lookCostsMs), LONGEST_WAIT_MS)
    const wait = Math.max(this.#hurry ? 0 : LOOK_EVERY_MS, cost)
    return this.#lookedAt + wait - this.#now()
  }

  /** Those with a notification first, some of the others by turns, and the deep ones by turns. */
  #some(isAsked: (place: Place) => boolean, limit: number): Place[] {
    let lines = linesFor(limit)
    let queues = OTHERS_AT_ONCE
    const hasRoom = ({ line }: Place) => (line === 0 ? queues-- : lines--) > 0
    const notified = [...this.#notified].filter((place) => isAsked(place) && hasRoom(place))
    const isFree = (place: Place) => isAsked(place) && !this.#notified.has(place)
    // New work in a line of the ring is announced to its owner, so only queues are asked without a reason.
    const isOther = (place: Place) => !place.deep && place.line === 0 && isFree(place)
    const others = this.#first(OTHERS_AT_ONCE, this.#otherTurn, isOther)
    // Each queue has its share of a claim. Lines need none: so many are enough to fill it, by turns.
    const deep = this.#first(DEEP_AT_ONCE, this.#deepTurn++, (place) => {
      return isFree(place) && (place.line === 0 ? place.deep : mayBeDeep(place) && lines-- > 0)
    })
    if (others.length > 0) this.#otherTurn = this.#places.indexOf(others.at(-1)!) + 1
    return [...notified, ...others, ...deep]
  }

  #first(count: number, turn: number, isMeant: (place: Place) => boolean): Place[] {
    const found: Place[] = []
    const { length } = this.#places
    for (let step = 0; step < length && found.length < count; step++) {
      const place = this.#places[(turn + step) % length]!
      if (isMeant(place)) found.push(place)
    }
    return found
  }

  #from(turn: number): Place[] {
    const start = turn % this.#places.length
    return [...this.#places.slice(start), ...this.#places.slice(0, start)]
  }

  /** The walk ended at the last job of the least urgent priority it came to. */
  #lastReached({ places }: Asked, jobs: readonly ClaimedJob[]): number {
    if (places.length === 1) return 0
    const lowest = jobs.at(-1)?.priority
    const lines = new Set(jobs.filter(({ priority }) => priority === lowest).map(nameOf))
    return places.findLastIndex((place) => lines.has(nameOf(place)))
  }

  /** Returns who had more than its share. */
  #setMarks({ fromStart, share }: Asked, jobs: readonly ClaimedJob[], full: boolean): Set<Place> {
    const deep = new Set<Place>()
    for (const { first, count } of bySpot(jobs)) {
      const { priority, availableAt: at, jobId } = first
      const place = this.#byLine.get(nameOf(first))
      // The ring has changed meanwhile.
      if (place === undefined) continue
      const hasMore = count >= share
      if (hasMore) deep.add(place)
      // What a look found behind the mark was all there was: the next claim need not step over what lies between.
      const mark = place.cursors.get(priority)
      if (fromStart && !full && !hasMore && mark !== undefined && isEarlier(at, mark.at)) continue
      place.cursors.set(priority, { at, jobId })
    }
    return deep
  }

  /** Lines that no claim has reached yet, or not since they were announced. */
  #hasLinesToAsk(): boolean {
    return this.#places.some((place) => place.line !== 0 && (!place.known || this.#notified.has(place)))
  }

  #nextTurn({ fromStart, places }: Asked, last: number): void {
    const next = this.#places.indexOf(places[last]!) + 1
    if (fromStart) this.#lookTurn = next
    else this.#deepTurn = next
  }

  #walked(walkMs: number, jobs: number): void {
    const isCheap = walkMs <= WALK_MS + WALK_MS_A_JOB * jobs
    this.#lateByMs = isCheap
      ? Math.min(this.#lateByMs * 1.1, LATE_BY_MS)
      : Math.max(this.#lateByMs / 2, LATE_BY_AT_LEAST_MS)
  }

  /** Most urgent first. A queue without a mark is asked for every priority. */
  #spotsOf(places: readonly Place[]): ScanStart[] {
    const spots: ScanStart[] = []
    const starts = places.map(({ emptyAt }) => emptyAt && textBefore(emptyAt, Math.round(this.#lateByMs)))
    for (const priority of PRIORITIES) {
      places.forEach(({ queue, line, cursors }, index) => {
        const mark = cursors.get(priority)
        if (mark === undefined && cursors.size > 0) return
        const from = starts[index] === undefined ? mark : undefined
        const fromAt = starts[index] ?? (mark === undefined ? '-infinity' : timeText(mark.at))
        spots.push({ queue, line, priority, fromAt, fromId: from?.jobId ?? '0' })
      })
    }
    return spots
  }

  #looked(asked: Asked, walkMs: number, jobs: number, more: boolean): boolean {
    this.#lookedAt = this.#now()
    this.#lookCostsMs = [this.#lookCostsMs[1], walkMs]
    this.#hurry = false
    if (!isSlice(asked)) {
      this.#slices.took(walkMs)
      return true
    }
    this.#hurry = true
    return this.#slices.seen(walkMs, jobs, more)
  }
}

function isSlice({ walk }: Asked): boolean {
  return 'queues' in walk && walk.dueForMs !== undefined
}
