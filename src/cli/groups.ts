import type { Command } from './command.ts'
import { settle, unblock } from './decide.ts'
import { queues, status, workers } from './fleet.ts'
import { enqueue, ls, show, why } from './jobs.ts'
import { cancel, pause, redrive, resume, retry } from './operate.ts'
import { configure, migrate, work } from './setup.ts'
import { top } from './top.ts'

export interface Group {
  readonly title: string
  readonly commands: readonly Command[]
}

/** In the order of the help. */
export const GROUPS: readonly Group[] = [
  { title: 'Look', commands: [status, queues, workers, top, ls, show, why] },
  { title: 'Operate', commands: [enqueue, retry, redrive, cancel, pause, resume, unblock, settle] },
  { title: 'Set up', commands: [migrate, configure, work] },
]
