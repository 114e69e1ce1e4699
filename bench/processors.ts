/** Processor time as the operating system counts it, by process. Null where the system has no /proc. */
import { readdirSync, readFileSync } from 'node:fs'

const TICKS_PER_SECOND = 100 // USER_HZ, which Linux shows on every platform we run on

/** The scheduler counts a process's main thread in nanoseconds, and a backend has no other thread. */
export function processMicros(pid: number): number | null {
  const precise = read(`/proc/${pid}/schedstat`)
  if (precise !== null) return Number(precise.split(' ')[0]) / 1000
  const ticks = statistics(pid)
  return ticks === null ? null : ticksToMicros(ticks.own)
}

/** Everything the server ever spent: its living processes, and those that ended and were waited for. */
export function serverMicros(postmaster: number): number | null {
  const main = statistics(postmaster)
  if (main === null) return null
  const living = readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && statistics(pid)?.parent === postmaster)
  return ticksToMicros(main.own + main.ended) + living.reduce((total, pid) => total + (processMicros(pid) ?? 0), 0)
}

function statistics(pid: number): { parent: number; own: number; ended: number } | null {
  const text = read(`/proc/${pid}/stat`)
  if (text === null) return null
  // The name is in parentheses and may hold anything; the fields after it are numbers, from the third on.
  const field = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const at = (position: number) => Number(field[position - 3])
  return { parent: at(4), own: at(14) + at(15), ended: at(16) + at(17) }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

function ticksToMicros(ticks: number): number {
  return (ticks * 1_000_000) / TICKS_PER_SECOND
}
