/** The worker processes, seen from the demo. */
import { Child, Staff } from '../child.ts'
import { Gate } from '../gate.ts'
import type { FromWorker, PoolReport, ToWorker, Way } from './messages.ts'

const PROGRAM = new URL('worker.ts', import.meta.url)

export interface CrewOptions {
  /** Workers start meanwhile. */
  readonly databaseUrl: Promise<string>
  readonly env: Readonly<Record<string, string>>
  /** A worker ended that should not have. */
  onLost(error: Error): void
  /** A worker has reclaimed these rows. */
  onPublish(ids: readonly number[]): void
}

export class Crew extends Staff<WorkerProcess> {
  #turn = 0
  /** Receives only the messages meant for it, so that its state is known. */
  setAside: WorkerProcess | undefined

  constructor(options: CrewOptions) {
    super((name) => new WorkerProcess(name, options))
  }

  /** The live workers in turn, except this one. */
  next(except?: WorkerProcess): WorkerProcess {
    const others = this.alive.filter((worker) => worker !== except && worker !== this.setAside)
    return others[this.#turn++ % others.length]!
  }

  get alive(): WorkerProcess[] {
    return this.all.filter(({ isAlive }) => isAlive)
  }
}

export class WorkerProcess {
  readonly name: string
  readonly ready: Promise<void>
  /** It has started, and was not asked to end. */
  isAlive = false
  readonly #child: Child<FromWorker, ToWorker>
  readonly #ready = new Gate()
  readonly #unacknowledged = new Map<number, () => void>()
  readonly #onPublish: CrewOptions['onPublish']
  #deliveries = 0
  #onRaced = () => {}
  #onPool: (report: PoolReport) => void = () => {}

  constructor(name: string, { databaseUrl, env, onLost, onPublish }: CrewOptions) {
    this.name = name
    this.ready = this.#ready.opened
    this.#onPublish = onPublish
    this.#child = new Child(name, { program: PROGRAM, args: [], env, onLost, hear: (message) => this.#hear(message) })
    databaseUrl.then(
      (url) => this.#child.send({ type: 'open', databaseUrl: url }),
      () => {},
    )
  }

  /** Whether the message was acknowledged. False: the worker has ended, and it never will be. */
  deliver(id: number, way: Way): Promise<boolean> {
    const delivery = ++this.#deliveries
    const acknowledged = new Promise<boolean>((resolve) => this.#unacknowledged.set(delivery, () => resolve(true)))
    this.#child.send({ type: 'deliver', delivery, id, way })
    return Promise.race([acknowledged, this.#child.closed.then(() => false)])
  }

  recover(): void {
    this.#child.send({ type: 'recover' })
  }

  /** Resolves when all racers of this process have arrived. */
  race(round: number, guarded: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#onRaced = resolve
      this.#child.send({ type: 'race', round, guarded })
    })
  }

  reportPool(): Promise<PoolReport> {
    return new Promise((resolve) => {
      this.#onPool = resolve
      this.#child.send({ type: 'report pool' })
    })
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.isAlive = false
    await this.#child.end(signal)
  }

  #hear(message: FromWorker): void {
    if (message.type === 'ready') {
      this.isAlive = true
      this.#ready.knock()
    } else if (message.type === 'acknowledge') this.#unacknowledged.get(message.delivery)?.()
    else if (message.type === 'publish') this.#onPublish(message.ids)
    else if (message.type === 'raced') this.#onRaced()
    else this.#onPool(message)
  }
}
