/**
 * Our calls in one transaction of the caller's take turns.
 *
 * Some of them begin a savepoint and roll back to it. That would undo what another call has done in between, although that call has
 * returned: a job reported as created would be gone. A call inside an effect of the transaction is a part of the effect, so it goes
 * in the line of that effect. Code that an effect calls without its async context waits for the effect to end.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Tx } from './tx.ts'

interface Line {
  /** The last call. Undefined: none is under way. */
  turn: Promise<unknown> | undefined
}

/** A running effect, of this owner and name. */
export interface Frame extends Line {
  readonly owner: object
  readonly name: string
  readonly tx: Tx | undefined
  readonly outer: Frame | undefined
  isRunning: boolean
}

const frames = new AsyncLocalStorage<Frame>()
const lines = new WeakMap<Tx, Line>()

/** The effects around the code that asks, from the inside out. */
export function* framesAround(): Generator<Frame> {
  for (let next = frames.getStore(); next !== undefined; next = next.outer) if (next.isRunning) yield next
}

export async function inFrame<T>(of: Pick<Frame, 'owner' | 'name' | 'tx'>, work: () => Promise<T>): Promise<T> {
  const frame: Frame = { ...of, outer: frames.getStore(), turn: undefined, isRunning: true }
  try {
    return await frames.run(frame, work)
  } finally {
    frame.isRunning = false
  }
}

/** `tx` must have been checked. */
export async function inTurn<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
  const line = [...framesAround()].find((frame) => frame.tx === tx) ?? lines.get(tx) ?? newLine(tx)
  const own = line.turn === undefined ? work() : line.turn.then(work)
  const ended = own
    .catch(() => {})
    .then(() => {
      if (line.turn === ended) line.turn = undefined
    })
  line.turn = ended
  return own
}

function newLine(tx: Tx): Line {
  const line: Line = { turn: undefined }
  lines.set(tx, line)
  return line
}
