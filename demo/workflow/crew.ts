/** The worker processes, seen from the demo. */
import { Child, Staff } from '../child.ts'
import { Gate } from '../gate.ts'
import type { Version } from './scale.ts'

export interface CrewOptions {
  readonly databaseUrl: string
  readonly servicesUrl: string
  readonly isUnprotected: boolean
  /** A worker ended that should not have. */
  onLost(error: Error): void
}

export class Crew {
  readonly #staff: Staff<WorkerProcess>
  /** Of the next worker. */
  #version: Version = 1

  constructor(options: CrewOptions) {
    this.#staff = new Staff((name) => new WorkerProcess(name, this.#version, options))
  }

  /** A worker that has this version deployed. Resolves when it runs. */
  hire(version: Version): Promise<WorkerProcess> {
    this.#version = version
    return this.#staff.hire()
  }

  stop(): Promise<void> {
    return this.#staff.stop()
  }

  killAll(): Promise<void> {
    return this.#staff.killAll()
  }
}

export class WorkerProcess {
  readonly name: string
  readonly ready: Promise<void>
  readonly #child: Child<{ readonly type: 'ready' }, never>

  constructor(name: string, version: Version, options: CrewOptions) {
    const { databaseUrl, servicesUrl, isUnprotected, onLost } = options
    const ready = new Gate()
    this.name = name
    this.ready = ready.opened
    this.#child = new Child(name, {
      program: new URL('worker.ts', import.meta.url),
      args: [isUnprotected ? 'by-hand' : String(version)],
      env: { DATABASE_URL: databaseUrl, SERVICES_URL: servicesUrl },
      hear: () => ready.knock(),
      onLost,
    })
  }

  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    return this.#child.end(signal)
  }
}
