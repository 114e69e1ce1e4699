/**
 * What the processes of a run have observed, in files that no fault touches. Each process appends to a file of its own, one
 * write for each line, so everything before a kill is there.
 */
import fs from 'node:fs'
import { join } from 'node:path'

export interface Line {
  /** The process: its seat and its number, such as worker-2.5. */
  readonly p: string
  /** Rises by one within a process. */
  readonly n: number
  /** Milliseconds by the clock of the machine, which is also the clock of its database. */
  readonly at: number
  /** What happened. */
  readonly e: string
  /** The work, by its name in the plan. */
  readonly w?: string
  readonly job?: string
  readonly gen?: number
  readonly [detail: string]: unknown
}

export class Witness {
  readonly name: string
  readonly #file: number
  #written = 0

  constructor(directory: string, name: string) {
    this.name = name
    this.#file = fs.openSync(join(directory, `${name}.jsonl`), 'a')
  }

  write(e: string, details: Readonly<Record<string, unknown>> = {}): void {
    const line = { p: this.name, n: ++this.#written, at: Date.now(), e, ...details }
    fs.writeSync(this.#file, `${JSON.stringify(line)}\n`)
  }

  close(): void {
    fs.closeSync(this.#file)
  }
}

/** All lines of a run, by time, and those of a process in their order. */
export function readWitness(directory: string, isMeant: (name: string) => boolean = () => true): Line[] {
  const files = fs.readdirSync(directory).filter((file) => file.endsWith('.jsonl') && isMeant(file))
  const lines = files.flatMap((file) => fs.readFileSync(join(directory, file), 'utf8').split('\n').flatMap(parsed))
  return lines.sort((one, other) => one.at - other.at || (one.p === other.p ? one.n - other.n : 0))
}

/** A full disk may leave a part of a line. */
function parsed(line: string): Line[] {
  try {
    return line === '' ? [] : [JSON.parse(line)]
  } catch {
    return []
  }
}

const LOOK_EVERY_MS = 25
/** A shorter delay of the event loop cannot cost a lease: a worker gives up a tenth of its lease before the end. */
const STALL_MS = 100

/** Records when this process was suspended: stopped, blocked, or not given a processor. */
export function noteStalls(witness: Witness): () => void {
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    const ms = Math.round(now - last - LOOK_EVERY_MS)
    last = now
    if (ms >= STALL_MS) witness.write('stall', { ms })
  }, LOOK_EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}
