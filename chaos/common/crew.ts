/** The processes of a run. Each has a seat; one that ends is replaced, until the run is over. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Line, WorkerProcess } from '../../test/support/processes.ts'
import { pauseProcess } from '../../tools/pause.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The program of a seat. */
export interface Post {
  /** The path of the program. Its first argument is its configuration as JSON. */
  readonly program: string
  /** For the process with this number, counted over all seats. */
  readonly orders: (process: number) => object
  /** For Node. */
  readonly flags?: readonly string[]
}

/** How a process has ended. */
export interface End {
  readonly struck: 'SIGKILL' | 'SIGTERM' | undefined
  readonly code: number | null
  readonly signal: string | null
  /** Time from the signal on. */
  readonly tookMs: number
  readonly stderr: string
}

/** A process that was struck. */
export interface Victim {
  readonly process: number
  readonly pid: number
}

interface Seat {
  readonly number: number
  readonly process: WorkerProcess
  readonly ready: Promise<Line>
  struck: End['struck']
  struckAt: number
  resume: (() => Promise<void>) | undefined
}

export class Crew {
  readonly ends: End[] = []
  readonly #posts: readonly Post[]
  readonly #onEnd: (process: number, end: End) => void
  readonly #seats: Seat[] = []
  /** Also those that have ended. */
  readonly #all: WorkerProcess[] = []
  readonly #watches: Promise<void>[] = []
  #isOver = false
  #isCalm = false

  constructor(posts: readonly Post[], onEnd: (process: number, end: End) => void = () => {}) {
    this.#posts = posts
    this.#onEnd = onEnd
    for (let seat = 0; seat < posts.length; seat++) this.#fill(seat)
  }

  get started(): number {
    return this.#all.length
  }

  /** Every line that any of them has printed. */
  *lines(): Iterable<Line> {
    for (const { lines } of this.#all) yield* lines
  }

  async ready(): Promise<void> {
    await Promise.all(this.#seats.map(({ ready }) => ready))
  }

  /** The processes that are at work on these seats. */
  atWork(seats: readonly number[]): (Victim & { readonly seat: number })[] {
    return seats.flatMap((seat) => {
      const found = this.#seats[seat]!
      return isAtWork(found) ? [{ seat, ...victim(found) }] : []
    })
  }

  /** Whether the current process of this seat has printed this. */
  hasSaid(seat: number, event: string): boolean {
    return this.#seats[seat]!.process.all(event).length > 0
  }

  /** The process on this seat, or on the next of these seats with a working one. */
  async strike(
    from: number,
    signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP',
    { forMs = 0, among = [...this.#posts.keys()], onResume = () => {} }: StrikeOptions = {},
  ): Promise<Victim | undefined> {
    const first = Math.max(0, among.indexOf(from))
    const order = [...among.slice(first), ...among.slice(0, first)]
    const seat = order.map((number) => this.#seats[number]!).find(isAtWork)
    if (seat === undefined) return undefined
    if (signal !== 'SIGSTOP') {
      end(seat, signal)
      return victim(seat)
    }
    seat.resume = async () => {} // Not the victim of another strike meanwhile.
    const go = await pauseProcess(seat.process.pid)
    seat.resume = async () => {
      await go()
      onResume()
    }
    setTimeout(() => resume(seat), forMs)
    return victim(seat)
  }

  /** Calms all of them, also later ones, and resumes those that are stopped. */
  async calm(): Promise<void> {
    this.#isCalm = true
    for (const seat of this.#seats) {
      seat.process.go()
      await resume(seat)
    }
  }

  /** As a deploy does. Resolves when all have ended. */
  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#seats.map(({ ready }) => ready.catch(() => {})))
    for (const seat of this.#seats) if (!seat.process.isGone && seat.struck === undefined) end(seat, 'SIGTERM')
    await Promise.all(this.#watches)
  }

  async kill(): Promise<void> {
    this.#isOver = true
    for (const seat of this.#seats) {
      end(seat, 'SIGKILL')
      await resume(seat)
    }
    await Promise.allSettled(this.#watches)
  }

  #fill(at: number): void {
    const { program, orders, flags = [] } = this.#posts[at]!
    const number = this.#all.length
    const argument = JSON.stringify({ ...orders(number), calm: this.#isCalm })
    const child = spawn(process.execPath, [...flags, '--import', 'tsx', program, argument], {
      cwd: ROOT,
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    })
    const made = new WorkerProcess(child)
    const ready = made.prints('ready')
    ready.catch(() => {}) // It ended before: reported below.
    const seat: Seat = { number, process: made, ready, struck: undefined, struckAt: 0, resume: undefined }
    this.#all.push(made)
    this.#seats[at] = seat
    this.#watches.push(this.#watch(seat, at))
  }

  async #watch(seat: Seat, at: number): Promise<void> {
    const { code, signal } = await seat.process.closed
    const { struck, struckAt } = seat
    const tookMs = performance.now() - struckAt
    const ended = { struck, code, signal, tookMs, stderr: seat.process.stderr }
    this.ends.push(ended)
    this.#onEnd(seat.number, ended)
    if (!this.#isOver) this.#fill(at)
  }
}

export interface StrikeOptions {
  /** How long a stopped process stays so. */
  readonly forMs?: number
  /** The seats whose processes may be struck. All unless given. */
  readonly among?: readonly number[]
  readonly onResume?: () => void
}

function victim({ number, process }: Seat): Victim {
  return { process: number, pid: process.pid }
}

function isAtWork({ process, struck, resume }: Seat): boolean {
  return !process.isGone && struck === undefined && resume === undefined && process.all('ready').length > 0
}

function end(seat: Seat, signal: 'SIGKILL' | 'SIGTERM'): void {
  // The first signal counts: a process that had to be killed in the end did not leave when it was asked to.
  if (seat.struck === undefined) {
    seat.struck = signal
    seat.struckAt = performance.now()
  }
  seat.process.kill(signal)
}

async function resume(seat: Seat): Promise<void> {
  const { resume } = seat
  seat.resume = undefined
  await resume?.()
}
