/** Jobs of keys in an ordered queue that is on the ring: the rules of order, and who claims what. */
import { finding } from '../../common/finding.ts'
import type { Line } from '../../common/witness.ts'
import { groupedBy, type HandlerRun, type History, type Span, touches, type Work } from '../history.ts'
import type { Workload } from '../workload.ts'
import { ordered, orderRules } from './ordered.ts'

const KEYS = 40
const BUCKETS = 1_024
/** A claim is sent with the lines of its moment, and may be carried out a little later; when something is in its way, much later. */
const CLAIM_MS = 1_000
const HAMPERED_CLAIM_MS = 12_000
/** Milliseconds are rounded. */
const ROUNDING_MS = 5
/** Beats go through again, and lines that a worker could not renew are reported as lost. */
const AFTER_FAULT_MS = 3_000
/** A shorter one costs no seat: beats are sent every 500 ms, and the last one holds for 1.6 s. */
const LONG_STALL_MS = 1_000

export const ring: Workload = {
  ...ordered,
  name: 'ring',
  share: 14,
  kinds: { ring: ordered.kinds.ordered! },
  queues: { ring: { ...ordered.queues!.ordered, ring: true } },
  plan: (random) => ({ ...ordered.plan(random), key: `user:${Math.floor(random() * KEYS)}` }),
  check: (history, works) => {
    const owners = ownersOf(history)
    const claims = works.flatMap((work) => work.runs.map((run) => ({ work, run })))
    const byWorkers = claims.filter(({ run }) => run.process.startsWith('worker'))
    const calmAt = history.lines.find(({ e, when }) => e === 'sessions' && when === 'calm')?.at ?? 0
    const atCalm = new Set(history.lines.filter(({ e }) => e === 'calm').map(({ p }) => p))
    const held = owners.filter(({ process, from, to }) => atCalm.has(process) && from <= calmAt && to >= calmAt)
    const owned = new Set(held.map(({ bucket }) => bucket))
    const missing = Array.from({ length: BUCKETS }, (_, bucket) => bucket).filter((bucket) => !owned.has(bucket))
    return [
      ...orderRules(history, works, 'on the ring: '),
      finding('on the ring: a worker claims only what it owns', byWorkers.length, foreign(history, owners, byWorkers)),
      finding('on the ring: no bucket has two owners at a time', owners.length, shared(history, owners)),
      finding(
        'on the ring: every bucket has an owner when all is calm',
        held.length,
        missing.length === 0 ? [] : [`${missing.length} buckets have none, such as ${missing.slice(0, 5).join(', ')}`],
      ),
    ]
  },
}

/** A process had a bucket. */
interface Ownership extends Span {
  readonly bucket: number
  readonly process: string
}

function ownersOf({ lines, processes }: History): Ownership[] {
  const changes = lines.filter(({ e }) => e === 'gained' || e === 'lost')
  const found: Ownership[] = []
  for (const [process, own] of groupedBy(changes, ({ p }) => p)) {
    const since = new Map<number, number>()
    const ends = (bucket: number, to: number) => {
      const from = since.get(bucket)
      if (from !== undefined) found.push({ bucket, process, from, to })
      since.delete(bucket)
    }
    for (const { e, at, buckets } of own as (Line & { readonly buckets: readonly number[] })[])
      for (const bucket of buckets) e === 'gained' ? since.set(bucket, at) : ends(bucket, at)
    for (const bucket of [...since.keys()]) ends(bucket, processes.get(process)?.endedAt ?? Number.POSITIVE_INFINITY)
  }
  return found
}

/** When a worker may have lost its seat without noticing yet. */
function uncertain({ hampered, tails, processes }: History, process: string): Span[] {
  const own = processes.get(process)?.stalls.filter(({ from, to }) => to - from >= LONG_STALL_MS) ?? []
  return [...hampered, ...tails, ...own].map(({ from, to }) => ({ from, to: to + AFTER_FAULT_MS }))
}

/** The generation of a claim is its time. Lines that a worker loses are reported before its next claim is sent. */
function foreign(
  history: History,
  owners: readonly Ownership[],
  claims: readonly { readonly work: Work; readonly run: HandlerRun }[],
): string[] {
  const of = groupedBy(owners, ({ bucket, process }) => `${bucket} ${process}`)
  return claims.flatMap(({ work: { w, script }, run: { gen, process } }) => {
    const bucket = bucketOf(script.key as string)
    const isHampered = touches(uncertain(history, process), gen - CLAIM_MS, gen)
    const sentAfter = gen - (isHampered ? HAMPERED_CLAIM_MS : CLAIM_MS)
    const owns = touches(of.get(`${bucket} ${process}`) ?? [], sentAfter, gen + ROUNDING_MS)
    return owns ? [] : [`${w} (${script.key}, bucket ${bucket}) was claimed by ${process}, which does not own it`]
  })
}

function shared(history: History, owners: readonly Ownership[]): string[] {
  const trouble = new Map([...history.processes.keys()].map((process) => [process, uncertain(history, process)]))
  const broken: string[] = []
  for (const [bucket, own] of groupedBy(owners, ({ bucket }) => String(bucket))) {
    const byStart = own.toSorted((one, other) => one.from - other.from)
    for (const [index, one] of byStart.entries()) {
      for (const other of byStart.slice(index + 1)) {
        if (other.process === one.process || other.from >= one.to) continue
        // The seat of one that is in trouble has expired when the other gains the bucket.
        const both = [...(trouble.get(one.process) ?? []), ...(trouble.get(other.process) ?? [])]
        if (touches(both, other.from, other.from)) continue
        const ms = Math.min(one.to, other.to) - other.from
        broken.push(`bucket ${bucket} belonged to ${one.process} and to ${other.process} for ${ms} ms`)
      }
    }
  }
  return broken
}

/** FNV-1a, as the documentation of the ring has it. */
function bucketOf(key: string): number {
  let hash = 2_166_136_261
  for (const byte of Buffer.from(key)) hash = Math.imul(hash ^ byte, 16_777_619) >>> 0
  return hash % BUCKETS
}
