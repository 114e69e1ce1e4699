// Real worker processes for tests, which can be killed, stopped and asked to leave. A test follows them by the lines they
// print and by the database. None outlives its test.
import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { WorkerOptions } from '../../src/index.ts'
import type { WorkerProgram } from '../worker/programs/worker.ts'
import { until } from './until.ts'

const PROGRAM = fileURLToPath(new URL('../worker/programs/worker.ts', import.meta.url))
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** One line that a worker process printed: an event, or ready, handled and left. */
export interface Line {
  readonly event: string
  readonly jobId?: string
  readonly generation?: number
  readonly reason?: string
  readonly error?: { readonly name: string; readonly code?: string }
  readonly [detail: string]: unknown
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export type ProcessOptions = Omit<Partial<WorkerProgram>, 'url'> & { readonly env?: Readonly<Record<string, string>> }

/** Short enough to wait for, long enough for a busy machine. */
export const OPTIONS: WorkerOptions = { lease: '2s', sweep: '200ms', poll: '200ms', concurrency: 4 }

/** Starts test/worker/programs/worker.ts, and resolves when it is about to run. */
export async function startWorker(t: TestContext, url: string, options: ProcessOptions = {}): Promise<WorkerProcess> {
  const { env = {}, kinds = ['work'], ...rest } = options
  const program: WorkerProgram = { url, kinds, ...rest, options: { ...OPTIONS, ...rest.options } }
  const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM], {
    cwd: ROOT,
    env: { ...process.env, ...env, LEASEHOLD_TEST_WORKER: JSON.stringify(program) },
    stdio: ['pipe', 'pipe', 'pipe', 'ipc'],
  })
  const worker = new WorkerProcess(child)
  t.after(async () => {
    worker.kill('SIGKILL')
    await worker.ends()
    // Files that libfaketime leaves in memory when its process is killed.
    for (const file of [`faketime_shm_${child.pid}`, `sem.faketime_sem_${child.pid}`])
      if ('FAKETIME' in env) rmSync(`/dev/shm/${file}`, { force: true })
  })
  await worker.prints('ready')
  return worker
}

export class WorkerProcess {
  readonly pid: number
  /** Its output so far. */
  readonly lines: Line[] = []
  /** It has ended, and all its output has been read. */
  readonly closed: Promise<Ended>
  readonly #child: ChildProcess
  #end: Ended | undefined
  #stderr = ''

  constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid!
    child.on('error', () => {}) // A message to a process that has just ended.
    child.stdin!.on('error', () => {})
    createInterface(child.stdout!).on('line', (line) => this.lines.push(JSON.parse(line)))
    child.stderr!.setEncoding('utf8').on('data', (text) => {
      this.#stderr += text
    })
    this.closed = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        this.#end = { code, signal }
        resolve(this.#end)
      })
    })
  }

  /** As in claimed_by. */
  get id(): string {
    return this.lines[0]!.workerId as string
  }

  get isGone(): boolean {
    return this.#end !== undefined
  }

  get stderr(): string {
    return this.#stderr
  }

  kill(signal: NodeJS.Signals): void {
    if (!this.isGone) this.#child.kill(signal)
  }

  /** Lets handlers that wait go on. One that is stopped gets the message when it continues. */
  go(): void {
    if (this.isGone) return
    this.#child.send('go')
    this.#child.stdin!.end()
  }

  /** Waits until it has ended and all its output has been read. */
  ends(): Promise<Ended> {
    return until(`process ${this.pid} ends`, () => this.#end)
  }

  /** Every line of an event so far. */
  all(event: string): Line[] {
    return this.lines.filter((line) => line.event === event)
  }

  /** Waits for a line. */
  async prints(event: string, isMeant: (line: Line) => boolean = () => true): Promise<Line> {
    return until(`process ${this.pid} prints ${event}`, () => {
      const line = this.lines.find((candidate) => candidate.event === event && isMeant(candidate))
      if (line === undefined && this.isGone) throw new Error(`it ended without printing ${event}: ${this.#stderr}`)
      return line
    })
  }
}
