/**
 * The worker processes, seen from the demo.
 *
 * The demo is their printer: a handler waits for its receipt to be printed before it sends it. So the demo decides how
 * long a receipt takes, and can hold a worker up in the middle of some, to kill or pause it there, without relying on luck.
 */
import { Child, Staff } from './child.ts'
import type { Claim, FromWorker, ToWorker } from './messages.ts'
import { printMs } from './scale.ts'

const PROGRAM = new URL('worker.ts', import.meta.url)

export type Mode = 'fenced' | 'unfenced'
/** How a handler that was held up has ended. */
export type Ending = 'sent' | 'refused'

export interface CrewOptions {
  readonly url: string
  readonly mode: Mode
  /** A worker ended that should not have. */
  onLost(error: Error): void
}

export class Crew extends Staff<WorkerProcess> {
  constructor(options: CrewOptions) {
    super((name) => new WorkerProcess(name, options))
  }
}

export class WorkerProcess {
  readonly name: string
  readonly ready: Promise<void>
  readonly #child: Child<FromWorker, ToWorker>
  /** Receipts that wait for the printer while this worker is held up. */
  #heldUp: Claim[] | undefined
  #onHeldUp = () => {}
  readonly #onEnding = new Map<string, (ending: Ending) => void>()

  constructor(name: string, { url, mode, onLost }: CrewOptions) {
    this.name = name
    let isReady = () => {}
    this.ready = new Promise((resolve) => {
      isReady = resolve
    })
    this.#child = new Child(name, {
      program: PROGRAM,
      args: [mode],
      env: { DATABASE_URL: url },
      hear: (message) => (message.type === 'ready' ? isReady() : this.#hear(message)),
      onLost,
    })
  }

  /** From now on nothing is printed for this worker. Resolves when it is in the middle of so many receipts. */
  holdUp(count: number): Promise<readonly Claim[]> {
    const heldUp: Claim[] = []
    this.#heldUp = heldUp
    return new Promise((resolve) => {
      this.#onHeldUp = () => {
        if (heldUp.length === count) resolve(heldUp)
      }
    })
  }

  pause(): Promise<void> {
    return this.#child.pause()
  }

  /** It goes on as if nothing had happened: its waiting receipts are printed now. Resolves when all of them have ended. */
  async wake(): Promise<Ending[]> {
    const heldUp = this.#heldUp ?? []
    this.#heldUp = undefined
    const endings = heldUp.map((claim) => new Promise<Ending>((resolve) => this.#onEnding.set(nameOf(claim), resolve)))
    await this.#child.wake()
    for (const claim of heldUp) this.#print(claim)
    return Promise.all(endings)
  }

  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    return this.#child.end(signal)
  }

  #hear(message: Exclude<FromWorker, { type: 'ready' }>): void {
    if (message.type !== 'printing') {
      this.#onEnding.get(nameOf(message))?.(message.type)
    } else if (this.#heldUp === undefined) {
      setTimeout(() => this.#print(message), printMs(message.orderId)).unref()
    } else {
      this.#heldUp.push(message)
      this.#onHeldUp()
    }
  }

  #print({ orderId, generation }: Claim): void {
    this.#child.send({ type: 'printed', orderId, generation })
  }
}

function nameOf({ orderId, generation }: Claim): string {
  return `${orderId}/${generation}`
}
