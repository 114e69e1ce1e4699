/** What every demo has in common: it ends by itself or when it is asked to, and its exit code is its verdict. */
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

class Interrupted extends Error {
  readonly exitCode: number

  constructor(signal: (typeof SIGNALS)[number]) {
    super(signal)
    this.exitCode = 128 + constants.signals[signal]
  }
}

export class UsageError extends Error {}

export interface Program<Flag extends string> {
  readonly usage: string
  readonly flags: readonly Flag[]
  /** Whether everything was as it should be. Nothing that was started is left when it returns or throws. */
  run(flags: Readonly<Record<Flag, boolean>>, end: AbortController): Promise<boolean>
}

/** The exit code: 0 if all was well, 1 if not, 2 if it was asked for something that there is not. */
export async function runProgram<Flag extends string>({ usage, flags, run }: Program<Flag>): Promise<number> {
  const end = new AbortController()
  // Once: whoever asks again need not wait, and what is left then cleans up after itself.
  for (const signal of SIGNALS) process.once(signal, () => end.abort(new Interrupted(signal)))
  try {
    const given = readFlags([...flags, 'help'])
    if (given.help) console.log(usage)
    return given.help || (await run(given, end)) ? 0 : 1
  } catch (error) {
    // At once: a server that is only just being started ends by itself when we are gone, and nobody waits for it.
    if (error instanceof Interrupted) process.exit(error.exitCode)
    console.error(error instanceof UsageError ? `${error.message}\n${usage}` : error)
    return error instanceof UsageError ? 2 : 1
  }
}

function readFlags<Flag extends string>(flags: readonly Flag[]): Record<Flag, boolean> {
  const options = Object.fromEntries(flags.map((flag) => [flag, { type: 'boolean', default: false } as const]))
  try {
    return parseArgs({ options }).values as Record<Flag, boolean>
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Ends a demo that takes longer than this. For clearTimeout(). */
export function alarmAfter(seconds: number, end: AbortController): NodeJS.Timeout {
  const tooLong = new Error(`The demo was not over after ${seconds} s.`)
  return setTimeout(() => end.abort(tooLong), seconds * 1_000)
}

/** Resolves when it is so: nothing announces what other processes do. */
export async function until(isSo: () => boolean | Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await isSo())) await sleep(50, undefined, { signal })
}

/** As the work ends, unless the signal is aborted first: then nobody waits for the work, nor for how it ends. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    work.then(resolve, reject)
    signal.addEventListener('abort', () => reject(signal.reason))
    if (signal.aborted) reject(signal.reason)
  })
}
