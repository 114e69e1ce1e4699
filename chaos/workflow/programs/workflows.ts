/** The declarations that starters and workers share. */
import { kind } from '../../../src/index.ts'
import { type Code, type Workflow, workflow } from '../../../src/workflow/index.ts'
import type { Program } from '../program.ts'

export interface RunInput {
  readonly program: Program
  /** Another input for the same run id. */
  readonly other?: true
}

export interface JobInput {
  readonly run: string
  readonly name: string
  readonly i: number
  readonly fails: boolean
}

const FAST = { first: 20, max: 200 } as const

/** Many attempts: processes die often here, and a lost connection fails the attempt of a transaction. */
export function chaosWorkflow(code?: Code<RunInput, unknown>): Workflow<RunInput, RunInput, unknown> {
  const options = { retry: { attempts: 100, backoff: FAST }, maxAttempts: 1_000, backoff: FAST }
  return workflow<RunInput, unknown>('chaos', options, code)
}

export const work = kind<JobInput>('work', { maxAttempts: 1_000, backoff: FAST })
