/** A process of a demo's own, which talks with it, and which does not end but when the demo says so. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface ChildOptions<FromChild> {
  readonly program: URL
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  hear(message: FromChild): void
  /** It ended, and should not have. */
  onLost(error: Error): void
}

export class Child<FromChild, ToChild extends object> {
  readonly name: string
  /** Resolves when it has ended, for whatever reason. */
  readonly closed: Promise<void>
  readonly #child: ChildProcess
  #mayEnd = false

  constructor(name: string, { program, args, env, hear, onLost }: ChildOptions<FromChild>) {
    this.name = name
    this.#child = fork(fileURLToPath(program), [name, ...args], {
      execArgv: ['--import', import.meta.resolve('tsx')],
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let complaints = ''
    this.#child.stderr?.setEncoding('utf8').on('data', (text) => {
      complaints += text
    })
    this.#child.on('error', () => {}) // Such as a message to a process that is gone: 'close' tells of that, too.
    this.#child.on('message', (message: FromChild) => hear(message))
    this.closed = once(this.#child, 'close').then(([code, signal]) => {
      if (!this.#mayEnd) onLost(new Error(`${name} ended by itself (${signal ?? code}). ${complaints}`))
    })
  }

  get pid(): number {
    return this.#child.pid!
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message)
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#mayEnd = true
    this.#child.kill(signal)
    await this.closed
  }
}

/** Processes that are started one by one, and end together. */
export class Staff<
  Worker extends { readonly ready: Promise<void>; end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> },
> {
  readonly all: Worker[] = []
  #isOver = false
  readonly #make: (name: string) => Worker

  constructor(make: (name: string) => Worker) {
    this.#make = make
  }

  /** Resolves when the worker runs. */
  async hire(): Promise<Worker> {
    if (this.#isOver) throw new Error('The demo is over.')
    const worker = this.#make(`worker ${this.all.length + 1}`)
    this.all.push(worker)
    await worker.ready
    return worker
  }

  /** As a deploy does, by SIGTERM: what is under way is finished or handed back. */
  async stop(): Promise<void> {
    await Promise.all(this.all.map((worker) => worker.end('SIGTERM')))
  }

  /** Nobody is hired any more. */
  async killAll(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.all.map((worker) => worker.end('SIGKILL')))
  }
}
