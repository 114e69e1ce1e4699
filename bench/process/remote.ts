/** The near side of a contender's process. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { ContenderName } from '../contenders/names.ts'
import type { Commands, Message, Usage } from './protocol.ts'

const CHILD = fileURLToPath(new URL('child.ts', import.meta.url))

interface Waiting {
  resolve(result: never): void
  reject(error: Error): void
}

export class Remote {
  readonly #contender: ContenderName
  readonly #child: ChildProcess
  readonly #answers = new Map<number, Waiting>()
  readonly #marks = new Map<number, Waiting>()
  readonly #reached = new Map<number, Usage>()
  #onMark: (usage: Usage) => void = () => {}
  #failure: Error | undefined
  #isEnding = false
  #sent = 0

  constructor(contender: ContenderName, execPath: string, execArgv: readonly string[] = []) {
    this.#contender = contender
    const flags = ['--disable-warning=ExperimentalWarning', ...execArgv]
    // Its output belongs to people: stdout is where the benchmark's own tables and JSON go.
    this.#child = fork(CHILD, [contender], { execPath, execArgv: flags, stdio: ['ignore', 2, 2, 'ipc'] })
    this.#child.on('message', (message: Message) => this.#hear(message))
    this.#child.once('error', (error) => this.#fail(error))
    this.#child.once('exit', (code, signal) => {
      if (!this.#isEnding) this.#fail(new Error(`its process ended early (${signal ?? code})`))
    })
  }

  /** Called at every mark, besides what waits for one. */
  onMark(listener: (usage: Usage) => void): void {
    this.#onMark = listener
  }

  call<Name extends keyof Commands>(
    command: Name,
    options: Parameters<Commands[Name]>[0],
  ): Promise<ReturnType<Commands[Name]>> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    const id = ++this.#sent
    const answer = new Promise<never>((resolve, reject) => this.#answers.set(id, { resolve, reject }))
    this.#child.send({ id, command, options })
    return answer
  }

  /** Resolves when the handler has been called so many times. It must be among the marks asked for. */
  mark(handled: number): Promise<Usage> {
    const reached = this.#reached.get(handled)
    if (reached !== undefined) return Promise.resolve(reached)
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    const mark = new Promise<never>((resolve, reject) => this.#marks.set(handled, { resolve, reject }))
    // A caller that asks for several awaits them one by one, and a failure rejects all.
    mark.catch(() => {})
    return mark
  }

  /** With kill -9. Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#isEnding = true
    const exited = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await exited
  }

  /** Throws what went wrong meanwhile, such as a job handled twice. */
  async end(): Promise<void> {
    this.#isEnding = true
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = new Promise((resolve) => this.#child.once('exit', resolve))
      if (this.#child.connected) this.#child.disconnect()
      else this.#child.kill('SIGKILL')
      await exited
    }
    if (this.#failure !== undefined) throw this.#failure
  }

  #hear(message: Message): void {
    if (message.type === 'mark') {
      const { handled } = message.usage
      this.#reached.set(handled, message.usage)
      this.#marks.get(handled)?.resolve(message.usage as never)
      this.#marks.delete(handled)
      this.#onMark(message.usage)
    } else if (message.type === 'result') {
      this.#answers.get(message.id)?.resolve(message.result as never)
      this.#answers.delete(message.id)
    } else {
      this.#fail(new Error(message.message))
    }
  }

  #fail(cause: Error): void {
    this.#failure ??= new Error(`${this.#contender}: ${cause.message}`, { cause })
    for (const waiting of [...this.#answers.values(), ...this.#marks.values()]) waiting.reject(this.#failure)
    this.#answers.clear()
    this.#marks.clear()
  }
}
