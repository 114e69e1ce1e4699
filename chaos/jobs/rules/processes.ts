/** Rules for processes: they leave in time, lose their jobs in time when they die, and leave nothing behind. */
import { type Finding, finding } from '../../common/finding.ts'
import type { History, Span } from '../history.ts'

/** Grace is 800 ms, and a worker has ten seconds for its last statements; the rest is for a busy machine. */
const LEAVES_WITHIN_MS = 25_000
/** On a machine with two processors that does much else. Beyond lease and sweep, while the database could be reached. */
const RECOVERY_SLACK_MS = 5_000
/** After a fault: workers notice, connect again, and take their duties again. */
const AFTER_FAULT_MS = 1_500
const HEAP_GROWTH_MB = 40
/** Each process: a worker's own sessions, and what its pool holds when idle. */
const SESSIONS_PER_PROCESS = 6
/** PgBouncer keeps those that it has. */
const SESSIONS_OF_POOLER = 12

export function processRules(history: History): Finding[] {
  const { lines } = history
  const ends = lines.filter(({ e }) => e === 'end')
  const leavers = ends.filter(({ struck }) => struck === 'SIGTERM')
  return [
    ...recovery(history),
    finding(
      'all work came to its end in time',
      1,
      lines.filter(({ e }) => e === 'stuck').map(({ what }) => String(what)),
    ),
    finding(
      'a process that is asked to leave leaves in time',
      leavers.length,
      leavers
        .filter(({ code, tookMs }) => code !== 0 || (tookMs as number) > LEAVES_WITHIN_MS)
        .map(({ who, code, signal, tookMs, stderr }) => `${who}: ${signal ?? code} after ${tookMs} ms ${stderr}`),
    ),
    finding(
      'no process ends by itself',
      ends.length,
      ends.filter(({ struck }) => struck === undefined).map(({ who, code, stderr }) => `${who}: ${code} ${stderr}`),
    ),
    sessions(history),
    heap(history),
  ]
}

/** From the kill to the end of each lease, without the time in which no process could have reclaimed it. */
function recovery(history: History): Finding[] {
  const { rows, leaseMs, sweepMs, hampered, processes, lines } = history
  const boundMs = leaseMs + sweepMs + RECOVERY_SLACK_MS
  const unable = merged([
    ...hampered.map(({ from, to }) => ({ from, to: to + AFTER_FAULT_MS })),
    ...[...processes.values()].flatMap(({ stalls }) => stalls),
  ])
  const killed = lines.filter(({ e, signal }) => e === 'struck' && signal === 'SIGKILL')
  const killedAt = new Map(killed.map(({ who, at }) => [who as string, at]))
  const reclaimed = rows.attempts.flatMap(({ job, worker, endedAt, outcome }) => {
    const at = killedAt.get(history.processOf(worker)?.name ?? '')
    return outcome !== 'crashed' || at === undefined || endedAt < at
      ? []
      : [{ job, tookMs: endedAt - at - overlap(unable, { from: at, to: endedAt }) }]
  })
  return [
    finding(
      `jobs of a killed worker are reclaimed within ${boundMs / 1_000} s`,
      reclaimed.length,
      reclaimed
        .filter(({ tookMs }) => tookMs > boundMs)
        .map(({ job, tookMs }) => `job ${job}: ${Math.round(tookMs)} ms`),
    ),
  ]
}

function sessions({ lines }: History): Finding {
  const counts = new Map(lines.filter(({ e }) => e === 'sessions').map(({ when, count }) => [when, count as number]))
  const inUse = lines.filter(({ e }) => e === 'calm').length
  const broken: string[] = []
  const [calm = 0, after = 0] = [counts.get('calm'), counts.get('after')]
  if (calm > inUse * SESSIONS_PER_PROCESS + SESSIONS_OF_POOLER)
    broken.push(`${calm} sessions of ${inUse} processes when all was calm`)
  if (after > 0) broken.push(`${after} sessions are left`)
  return finding('connections are back to normal', counts.size, broken)
}

function heap({ lines }: History): Finding {
  const first = new Map(lines.filter(({ e }) => e === 'ready').map(({ p, heapMb }) => [p, heapMb as number]))
  const last = lines.filter(({ e }) => e === 'calm')
  return finding(
    'memory is back to normal',
    last.length,
    last
      .filter(({ p, heapMb }) => (heapMb as number) > first.get(p)! + HEAP_GROWTH_MB)
      .map(({ p, heapMb }) => `${p}: ${heapMb} MB after ${first.get(p)} MB at its start`),
  )
}

function merged(spans: readonly Span[]): Span[] {
  const all: { from: number; to: number }[] = []
  for (const span of spans.toSorted((one, other) => one.from - other.from)) {
    const last = all.at(-1)
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to)
    else all.push({ ...span })
  }
  return all
}

function overlap(spans: readonly Span[], { from, to }: Span): number {
  return spans.reduce((sum, span) => sum + Math.max(0, Math.min(span.to, to) - Math.max(span.from, from)), 0)
}
