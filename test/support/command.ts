// Runs the command in this process, as its own process would.
import { run } from '../../src/cli/main.ts'

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

export function command(url: string | undefined, ...argv: string[]): Promise<Ran> {
  return commandUntil(new AbortController().signal, url, ...argv)
}

/** The signal aborts when the process would be asked to end. */
export async function commandUntil(signal: AbortSignal, url: string | undefined, ...argv: string[]): Promise<Ran> {
  const out: string[] = []
  const err: string[] = []
  const code = await run(argv, {
    stdout: { write: (text) => out.push(text) },
    stderr: { write: (text) => err.push(text) },
    env: { LEASEHOLD_URL: url, USER: 'ada' },
    signal,
  })
  return { code, out: out.join(''), err: err.join('') }
}
