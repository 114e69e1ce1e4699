/** The jobs of one kind in the slots of a worker, and what a claim should ask for. */
import type { Batch } from './batch.ts'
import type { Handler } from './handler.ts'
import type { HeldJob } from './job.ts'

export interface KindSlots {
  readonly handler: Handler
  readonly waiting: HeldJob[]
  /** Index of the first that still waits. */
  head: number
  /** Calls of its handler. */
  calls: number
  /** Jobs in these calls. */
  running: number
  held: number
  /** Handlers of this kind that have ended, and what they took by the mean of late. */
  ended: number
  handlerMs: number
  /** The call that jobs which start now join, if it takes more. */
  batch: Batch | undefined
}

/** What the next claim should ask for. */
export interface ClaimDemand {
  readonly limit: number
  readonly kinds: readonly string[]
  readonly queues: readonly string[]
  /** There was room for more, but not of all these kinds. */
  readonly narrowed: boolean
}

export function noneOf(handler: Handler): KindSlots {
  return { handler, waiting: [], head: 0, calls: 0, running: 0, held: 0, ended: 0, handlerMs: 0, batch: undefined }
}

export function namesOf(slots: readonly KindSlots[]): Pick<ClaimDemand, 'kinds' | 'queues'> {
  const kinds = slots.map(({ handler }) => handler.kind)
  return { kinds: kinds.map(({ name }) => name), queues: [...new Set(kinds.map(({ queue }) => queue))] }
}
