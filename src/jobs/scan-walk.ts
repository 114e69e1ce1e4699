/** What one claim walks. */
import type { Line } from './lines.ts'

export const PRIORITIES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] as const

/** A (queue, line, priority) and the row to start from. */
export interface ScanStart extends Line {
  readonly priority: number
  readonly fromAt: string
  readonly fromId: string
}

/** From the beginning of these queues, in all their priorities. */
export interface Look {
  readonly queues: readonly string[]
  /** Of each of them. Undefined: 0. */
  readonly lines?: readonly number[]
  /** Only jobs that have been due for so long, and not for longer. Undefined: all. */
  readonly dueForMs?: { readonly from: number; readonly to: number } | undefined
}

export type Walk = readonly ScanStart[] | Look

/** The beginning of every priority of these queues, most urgent first. */
export function everyStart(queues: readonly string[]): ScanStart[] {
  // Each spot once: a row this claim has locked itself does not count as locked, and would be taken twice.
  const once = [...new Set(queues)]
  return PRIORITIES.flatMap((priority) =>
    once.map((queue) => ({ queue, line: 0, priority, fromAt: '-infinity', fromId: '0' })),
  )
}
