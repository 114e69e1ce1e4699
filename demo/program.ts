/** The common part of every demo: it ends by itself or on request, and its exit code is its verdict. */
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
  /** Whether everything was as expected. Nothing that was started is left when it returns or throws. */
  run(flags: Readonly<Record<Flag, boolean>>, end: AbortController): Promise<boolean>
}

/** The exit code: 0 if all was well, 1 if not, 2 for an unknown argument. */
export async function runProgram<Flag extends string>({ usage, flags, run }: Program<Flag>): Promise<number> {
  const end = new AbortController()
  // Once: a second signal does not wait, and the rest then cleans up after itself.
  for (const signal of SIGNALS) process.once(signal, () => end.abort(new Interrupted(signal)))
  try {
    const given = readFlags([...flags, 'help'])
    if (given.help) console.log(usage)
    return given.help || (await run(given, end)) ? 0 : 1
  } catch (error) {
    // At once: a server that is just being started ends by itself when we exit, without being awaited.
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

interface Stage {
  readonly end: AbortController
  readonly screen: { close(): void }
  readonly crew: { killAll(): Promise<unknown> }
  readonly secondsAtMost: number
  /** Ends what is left, after the processes of the crew. */
  clear(): Promise<unknown>
}

/** Tells the story, and clears the stage however it ends: by itself, by an error, on request or because it takes too long. */
export async function perform(
  { end, screen, crew, secondsAtMost, clear }: Stage,
  story: () => Promise<boolean>,
): Promise<boolean> {
  const alarm = alarmAfter(secondsAtMost, end)
  try {
    return await story()
  } finally {
    clearTimeout(alarm)
    screen.close()
    await crew.killAll()
    await clear()
  }
}

/** Polls until it is so: no event announces what other processes do. */
export async function until(isSo: () => boolean | Promise<boolean>, signal: AbortSignal): Promise<void> {
  while (!(await isSo())) await sleep(50, undefined, { signal })
}

/** Settles with the work, unless the signal is aborted first: then the work is no longer awaited. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    work.then(resolve, reject)
    signal.addEventListener('abort', () => reject(signal.reason))
    if (signal.aborted) reject(signal.reason)
  })
}
