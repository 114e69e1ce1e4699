/** A child process of a demo, which exchanges messages with it and ends only on its command. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { pauseProcess } from '../tools/pause.ts'

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
  /** Resolves when it has ended, for any reason. */
  readonly closed: Promise<void>
  readonly #child: ChildProcess
  #mayEnd = false
  #resume: (() => Promise<void>) | undefined

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
    this.#child.on('message', (message: FromChild) => hear(message))
    this.closed = once(this.#child, 'close').then(([code, signal]) => {
      if (!this.#mayEnd) onLost(new Error(`${name} ended by itself (${signal ?? code}). ${complaints}`))
    })
  }

  send(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message, () => {}) // Fails for a process just killed; 'close' reports that.
  }

  /** Like a long garbage collection or a suspended machine: it does nothing, and does not notice. */
  async pause(): Promise<void> {
    this.#resume = await pauseProcess(this.#child.pid!)
  }

  /** It goes on as if nothing had happened. */
  async wake(): Promise<void> {
    const resume = this.#resume
    this.#resume = undefined
    await resume?.()
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#mayEnd = true
    this.#child.kill(signal)
    await this.wake()
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
  readonly #title: string

  constructor(make: (name: string) => Worker, title = 'worker') {
    this.#make = make
    this.#title = title
  }

  /** Resolves when the worker runs. */
  async hire(): Promise<Worker> {
    if (this.#isOver) throw new Error('The demo is over.')
    const worker = this.#make(`${this.#title} ${this.all.length + 1}`)
    this.all.push(worker)
    await worker.ready
    return worker
  }

  /** As a deploy does, by SIGTERM: running work is finished or released. */
  async stop(): Promise<void> {
    await Promise.all(this.all.map((worker) => worker.end('SIGTERM')))
  }

  /** No process is started any more. */
  async killAll(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.all.map((worker) => worker.end('SIGKILL')))
  }
}
