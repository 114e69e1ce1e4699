/** The processes that consume. Each has a seat; one that is gone is replaced, until the run is over. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Line, WorkerProcess } from '../../test/support/processes.ts'
import { pauseProcess } from '../../tools/pause.ts'
import { SEATS } from './plan.ts'
import type { Orders } from './program.ts'

const PROGRAM = fileURLToPath(new URL('program.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** How a process has ended. */
export interface End {
  readonly struck: 'SIGKILL' | 'SIGTERM' | undefined
  readonly code: number | null
  readonly signal: string | null
  /** From the signal on. */
  readonly tookMs: number
  readonly stderr: string
}

interface Seat {
  readonly process: WorkerProcess
  readonly ready: Promise<Line>
  struck: End['struck']
  struckAt: number
  resume: (() => Promise<void>) | undefined
}

export class Crew {
  readonly ends: End[] = []
  readonly #orders: (process: number) => Orders
  readonly #seats: Seat[] = []
  /** Also those that are gone. */
  readonly #all: WorkerProcess[] = []
  readonly #watches: Promise<void>[] = []
  #isOver = false
  #isCalm = false

  constructor(orders: (process: number) => Orders) {
    this.#orders = orders
    for (let seat = 0; seat < SEATS; seat++) this.#fill(seat)
  }

  get started(): number {
    return this.#all.length
  }

  /** Everything that any of them has said. */
  *lines(): Iterable<Line> {
    for (const { lines } of this.#all) yield* lines
  }

  async ready(): Promise<void> {
    await Promise.all(this.#seats.map(({ ready }) => ready))
  }

  /** Whether there was somebody to be struck: on this seat, or on the next one that is at work. */
  async strike(from: number, signal: 'SIGKILL' | 'SIGTERM' | 'SIGSTOP', forMs = 0): Promise<boolean> {
    const seat = this.#seats.concat(this.#seats).slice(from).find(isAtWork)
    if (seat === undefined) return false
    if (signal !== 'SIGSTOP') {
      end(seat, signal)
      return true
    }
    seat.resume = async () => {} // Nobody else's victim meanwhile.
    seat.resume = await pauseProcess(seat.process.pid)
    setTimeout(() => resume(seat), forMs)
    return true
  }

  /** Nobody's handlers fail any more, and whoever is stopped goes on. */
  async calm(): Promise<void> {
    this.#isCalm = true
    for (const seat of this.#seats) {
      seat.process.go()
      await resume(seat)
    }
  }

  /** As a deploy does. Resolves when all are gone. */
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

  #fill(number: number): void {
    const orders = { ...this.#orders(this.#all.length), calm: this.#isCalm }
    const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, JSON.stringify(orders)], {
      cwd: ROOT,
      stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
    })
    const made = new WorkerProcess(child)
    const ready = made.prints('ready')
    ready.catch(() => {}) // It ended before: that is told below.
    const seat: Seat = { process: made, ready, struck: undefined, struckAt: 0, resume: undefined }
    this.#all.push(made)
    this.#seats[number] = seat
    this.#watches.push(this.#watch(seat, number))
  }

  async #watch(seat: Seat, number: number): Promise<void> {
    const { code, signal } = await seat.process.closed
    const { struck, struckAt } = seat
    const tookMs = performance.now() - struckAt
    this.ends.push({ struck, code, signal, tookMs, stderr: seat.process.stderr })
    if (!this.#isOver) this.#fill(number)
  }
}

function isAtWork({ process, struck, resume }: Seat): boolean {
  return !process.isGone && struck === undefined && resume === undefined && process.all('ready').length > 0
}

function end(seat: Seat, signal: 'SIGKILL' | 'SIGTERM'): void {
  seat.struck = signal
  seat.struckAt = performance.now()
  seat.process.kill(signal)
}

async function resume(seat: Seat): Promise<void> {
  const { resume } = seat
  seat.resume = undefined
  await resume?.()
}
