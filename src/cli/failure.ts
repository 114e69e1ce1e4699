import { cut } from './terminal.ts'

/** Input that cannot be used: one line on stderr, exit code 2. The message states what to do. */
export class Failure extends Error {
  readonly exitCode: 1 | 2
  constructor(message: string, exitCode: 1 | 2 = 2) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A value of the user's in a message: one that is long would hide what the message says. */
export function quoted(value: string): string {
  return JSON.stringify(cut(value, 80))
}
