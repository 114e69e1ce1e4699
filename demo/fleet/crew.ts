/** The worker processes, seen from the demo. */
import { Child, Staff } from '../child.ts'
import { Gate } from '../gate.ts'
import type { FromWorker, ToWorker } from './messages.ts'
import { ALL_WORKERS } from './scale.ts'

export interface CrewOptions {
  readonly databaseUrl: string
  readonly isUnprotected: boolean
  /** A worker ended that should not have. */
  onLost(error: Error): void
}

export class Crew {
  readonly #staff: Staff<WorkerProcess>
  /** The next worker. Its program is loaded ahead, since that takes a second. */
  #next: Promise<WorkerProcess>

  constructor(options: CrewOptions) {
    this.#staff = new Staff((name) => new WorkerProcess(name, options))
    this.#next = this.#staff.hire()
  }

  get workers(): readonly WorkerProcess[] {
    return this.#staff.all
  }

  get refused(): number {
    return this.workers.reduce((sum, { refused }) => sum + refused, 0)
  }

  /** Resolves when the next worker can start at once. */
  async loaded(): Promise<void> {
    await this.#next
  }

  async hire(): Promise<WorkerProcess> {
    const worker = await this.#next
    if (this.workers.length < ALL_WORKERS) this.#next = this.#staff.hire()
    worker.join()
    return worker
  }

  stop(): Promise<void> {
    return this.#staff.stop()
  }

  killAll(): Promise<void> {
    return this.#staff.killAll()
  }
}

export type Condition = 'loaded' | 'runs' | 'stopped' | 'gone'

export class WorkerProcess {
  readonly name: string
  readonly ready: Promise<void>
  /** Where it looks for jobs, by its last message. */
  readonly buckets = new Set<number>()
  condition: Condition = 'loaded'
  refused = 0
  readonly #child: Child<FromWorker, ToWorker>
  readonly #busy = new Gate()

  constructor(name: string, { databaseUrl, isUnprotected, onLost }: CrewOptions) {
    const ready = new Gate()
    this.name = name
    this.ready = ready.opened
    this.#child = new Child(name, {
      program: new URL('worker.ts', import.meta.url),
      args: isUnprotected ? ['by-hand'] : [],
      env: { DATABASE_URL: databaseUrl },
      hear: (message) => {
        if (message.type === 'ready') ready.knock()
        else if (message.type === 'busy') this.#busy.knock()
        else if (message.type === 'refused') this.refused++
        else for (const bucket of message.buckets) this.#note(message.type, bucket)
      },
      onLost,
    })
  }

  join(): void {
    this.#child.send({ type: 'join' })
    this.condition = 'runs'
  }

  /** Resolves when it is in the middle of a job that takes long. */
  getBusy(): Promise<void> {
    this.#child.send({ type: 'slow' })
    return this.#busy.opened
  }

  async pause(): Promise<void> {
    await this.#child.pause()
    this.condition = 'stopped'
  }

  async wake(): Promise<void> {
    await this.#child.wake()
    this.condition = 'runs'
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const ended = this.#child.end(signal)
    if (signal === 'SIGKILL') this.condition = 'gone'
    await ended
    this.condition = 'gone'
  }

  #note(change: 'gained' | 'lost', bucket: number): void {
    if (change === 'gained') this.buckets.add(bucket)
    else this.buckets.delete(bucket)
  }
}
