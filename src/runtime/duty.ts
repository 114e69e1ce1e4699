import type { Lane } from '../db/lane.ts'
import { numericArray } from '../db/parameters.ts'
import { ADD_DUTIES, SOONER, TAKE_DUTIES } from './duty.sql.ts'

export const DUTIES = [
  'sweep',
  'suspects',
  'expire',
  'prune',
  'partitions',
  'order',
  'inbox',
  'signals',
  'versions',
] as const
export type Duty = (typeof DUTIES)[number]

/** Of its interval. */
const MAY_WAIT = 1 / 20

/** Makes duties known that no migration has. */
export async function addDuties(lane: Lane, names: readonly string[]): Promise<void> {
  await lane.run(ADD_DUTIES, [names])
}

/** The duties that fell to this caller, and how long it is until another may be due. */
export async function takeDuties<Name extends string>(
  lane: Lane,
  everyMs: Readonly<Record<Name, number>>,
): Promise<{ taken: Name[]; nextInMs: number }> {
  const rows = await lane.run<'name' | 'due' | 'wait_ms'>(TAKE_DUTIES, [
    Object.keys(everyMs),
    numericArray(Object.values<number>(everyMs)),
  ])
  const taken = rows.filter(({ due }) => due === 't').map(({ name }) => name as Name)
  const waits = rows.map(({ name, due, wait_ms: waitMs }) => {
    const interval = everyMs[name as Name]
    // Another worker has just taken it, or we have: an interval from now.
    return { interval, ms: due === 't' || Number(waitMs) <= 0 ? interval : Number(waitMs) }
  })
  return { taken, nextInMs: together(waits) }
}

/** Duties that are due at nearly the same time are taken by one statement: one may wait a twentieth of its interval for others. */
function together(waits: readonly { readonly ms: number; readonly interval: number }[]): number {
  const latest = Math.min(...waits.map(({ ms, interval }) => ms + interval * MAY_WAIT))
  return Math.max(...waits.map(({ ms }) => ms).filter((ms) => ms <= latest))
}

/** Makes this duty due in `inMs`, if that is sooner. */
export async function takeSooner(lane: Lane, duty: Duty, inMs: number): Promise<void> {
  await lane.run(SOONER, [duty, inMs])
}
