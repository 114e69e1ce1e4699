/**
 * Compares the evidence with the promises of docs/outbox.md and docs/inbox.md. It shares no code with the library: it compares what
 * producers committed with what receivers stored, and with the witness files.
 */
import { type Finding, finding } from '../common/finding.ts'
import type { Line } from '../common/witness.ts'
import type { CommittedRow, EffectRow, Rows, UnsentRow } from './evidence.ts'
import { DESTINATION_NAMES, type DestinationName, POLICIES } from './plan.ts'

/** Grace and the last requests to broker and database; the rest is for a busy machine. */
const LEAVES_WITHIN_MS = 25_000

export interface History {
  readonly lines: readonly Line[]
  readonly rows: Rows
}

/** One event at one destination. */
interface Expected extends CommittedRow {
  readonly to: DestinationName
  /** Poison events before it in its key. */
  readonly poisonAhead: number
}

export function check({ lines, rows }: History): Finding[] {
  const facts = factsOf(lines, rows)
  return [
    lost(facts),
    rolledBack(facts),
    sameId(facts),
    once(facts),
    inOrder(facts),
    sameBytes(facts),
    retention(rows),
    deadLetters(facts, rows),
    ownKeyOnly(facts),
    policies(facts, rows),
    settled(lines),
    processes(lines),
  ]
}

interface Facts {
  readonly lines: readonly Line[]
  readonly expected: readonly Expected[]
  readonly committed: ReadonlyMap<string, CommittedRow>
  readonly effects: readonly EffectRow[]
  /** By destination and name. */
  readonly effectsOf: ReadonlyMap<string, readonly EffectRow[]>
}

function factsOf(lines: readonly Line[], { committed, effects }: Rows): Facts {
  return {
    lines,
    expected: DESTINATION_NAMES.flatMap((to) => {
      const poison = new Map<string, number>()
      return committed.map((event) => {
        const poisonAhead = poison.get(event.key) ?? 0
        if (event.poison) poison.set(event.key, poisonAhead + 1)
        return { ...event, to, poisonAhead }
      })
    }),
    committed: new Map(committed.map((event) => [event.w, event])),
    effects,
    effectsOf: groupedBy(effects, ({ destination, w }) => at(destination, w)),
  }
}

/** A parked event waits among the dead letters, behind the poison event of its key. */
function isParked({ to, poisonAhead }: Expected): boolean {
  return POLICIES[to] === 'park' && poisonAhead > 0
}

function isDue(event: Expected): boolean {
  return !event.poison && !isParked(event)
}

function lost({ expected, effectsOf, lines }: Facts): Finding {
  const due = expected.filter(isDue)
  const missing = due.filter(({ to, w }) => !effectsOf.has(at(to, w)))
  return finding(
    'every event that was committed is received at each destination',
    due.length,
    missing.map((event) => story(lines, event, 'never received')),
  )
}

function rolledBack({ effects, committed, lines }: Facts): Finding {
  const published = new Set(lines.flatMap((line) => (line.e === 'published' ? (line.names as string[]) : [])))
  const undone = [...published].filter((w) => !committed.has(w))
  const wrong = effects.filter(({ w }) => !committed.has(w))
  return finding(
    'nothing that was rolled back is received',
    undone.length,
    wrong.map(({ w, destination }) => `${w} at ${destination}: it was not committed`),
  )
}

function sameId({ lines, committed }: Facts): Finding {
  const deliveries = lines.filter(({ e }) => e === 'delivered')
  const wrong = deliveries.filter(({ w, id }) => committed.has(w!) && committed.get(w!)!.id !== id)
  return finding(
    'every delivery, also of a copy, has the id of its event',
    deliveries.length,
    wrong.map(({ w, to, id }) => `${w} at ${to}: delivered as ${id}, committed as ${committed.get(w!)!.id}`),
  )
}

function once({ expected, effectsOf, lines }: Facts): Finding {
  const twice = expected.filter(({ to, w }) => (effectsOf.get(at(to, w)) ?? []).length > 1)
  return finding(
    'an event has its effect once at each destination',
    effectsOf.size,
    twice.map((event) => story(lines, event, `${effectsOf.get(at(event.to, event.w))!.length} effects`)),
  )
}

/** By first arrivals: an event that is received after a later one of its key was overtaken. */
function inOrder({ effects, committed, lines }: Facts): Finding {
  const highest = new Map<string, CommittedRow>()
  const seen = new Set<string>()
  const broken: string[] = []
  for (const { destination, w } of effects) {
    const event = committed.get(w)
    if (event === undefined || seen.has(at(destination, w))) continue
    seen.add(at(destination, w))
    const before = highest.get(at(destination, event.key))
    if (before === undefined || before.n < event.n) highest.set(at(destination, event.key), event)
    else {
      const to = destination as DestinationName
      broken.push(story(lines, { ...event, to }, `received after ${before.w}, which is ${before.n} in ${event.key}`))
    }
  }
  return finding('events of a key are first received in the order of their commits', seen.size, broken)
}

function sameBytes({ effects, committed }: Facts): Finding {
  const known = effects.filter(({ w }) => committed.has(w))
  const wrong = known.filter(({ w, digest, key }) => {
    const event = committed.get(w)!
    return event.digest !== digest || event.key !== key
  })
  return finding(
    'data arrives byte by byte, with its key',
    known.length,
    wrong.map(({ w, destination }) => `${w} at ${destination}`),
  )
}

function retention({ unsent, committed, stored }: Rows): Finding {
  const wrong = unsent.filter((row) => !row.isStored || /not in the database/.test(row.error ?? ''))
  return finding(
    'retention drops no event that is not sent',
    unsent.length + (committed.length - stored),
    wrong.map(({ id, destination, status }) => `${id} for ${destination} (${status}): its event is gone`),
  )
}

function deadLetters({ expected }: Facts, { unsent }: Rows): Finding {
  const letters = unsent.filter(({ status }) => status === 'dead_letter')
  const lettersOf = groupedBy(letters, ({ destination, id }) => at(destination, id))
  const broken: string[] = []
  let checked = 0
  for (const event of expected) {
    const own = lettersOf.get(at(event.to, event.id)) ?? []
    const reason = isParked(event) ? 'parked' : event.poison ? 'fatal' : undefined
    if (reason !== undefined) checked++
    const found = own.map(described).join(', ') || 'none'
    const isRight = reason === undefined ? own.length === 0 : own.length === 1 && isFor(own[0]!, reason)
    if (!isRight) broken.push(`${event.w} at ${event.to}: dead letters: ${found}; expected: ${reason ?? 'none'}`)
  }
  return finding('a poison event is a dead letter with its reason, and no other event is', checked, broken)
}

function isFor({ reason, error }: UnsentRow, expected: string): boolean {
  return reason === expected && (reason !== 'fatal' || /bytes|size|larger/i.test(error ?? ''))
}

function described({ reason, error }: UnsentRow): string {
  return `${reason}${error === null ? '' : ` (${error.slice(0, 120)})`}`
}

/** Events of keys without poison arrive while the poisoned keys are still blocked. */
function ownKeyOnly({ expected, effectsOf, lines }: Facts): Finding {
  const poisoned = new Set(expected.filter(({ poison }) => poison).map(({ key }) => key))
  const others = expected.filter(({ key }) => !poisoned.has(key))
  const quiet = lines.find(({ e }) => e === 'quiet')
  const isInTime = ({ to, w }: Expected) => effectsOf.get(at(to, w))?.some(({ at }) => at <= quiet!.at) ?? false
  const late = quiet === undefined ? [] : others.filter((event) => !isInTime(event))
  return finding(
    'a poison event delays only its own key',
    poisoned.size,
    poisoned.size === 0 ? [] : late.map((event) => story(lines, event, 'not received before keys were unblocked')),
  )
}

function policies({ expected, effectsOf, lines }: Facts, { unsent }: Rows): Finding {
  const unblocks = groupedBy(
    lines.filter(({ e, outcome }) => e === 'unblock' && outcome === 'unblocked'),
    ({ destination, key }) => at(String(destination), String(key)),
  )
  const behind = expected.filter(({ poison, poisonAhead }) => !poison && poisonAhead > 0)
  const leftOf = new Set(unsent.map(({ destination, id }) => at(destination, id)))
  const broken = behind.flatMap((event) => {
    const { to, w, key, poisonAhead } = event
    const [effect] = effectsOf.get(at(to, w)) ?? []
    if (POLICIES[to] === 'park') {
      if (effect !== undefined) return [story(lines, event, 'received, though its key is parked')]
      return leftOf.has(at(to, event.id)) ? [] : [story(lines, event, 'neither parked nor received')]
    }
    if (POLICIES[to] === 'skip' || effect === undefined) return []
    // Each dead letter that it waited for took an unblock.
    const allowed = unblocks.get(at(to, key))?.[poisonAhead - 1]
    return allowed !== undefined && effect.at >= (allowed.askedAt as number)
      ? []
      : [story(lines, event, 'received while a dead letter blocked its key')]
  })
  return finding('a key behind a dead letter follows onDeadLetter: block, skip or park', behind.length, broken)
}

function settled(lines: readonly Line[]): Finding {
  const stuck = lines.filter(({ e }) => e === 'stuck').map(({ what }) => String(what))
  return finding('everything came to its end in time', 1, stuck)
}

function processes(lines: readonly Line[]): Finding {
  const ends = lines.filter(({ e }) => e === 'end')
  const dying = new Set(lines.filter(({ e }) => e === 'dies').map(({ p }) => p))
  const broken = ends.flatMap(({ who, struck, code, tookMs, stderr, signal }) => {
    const how = `code ${code}, signal ${signal}: ${stderr}`
    if (struck === undefined && !dying.has(String(who))) return [`${who} ended by itself, ${how}`]
    if (struck !== 'SIGTERM') return []
    if (code !== 0) return [`${who} was asked to leave and ended with ${how}`]
    return Number(tookMs) > LEAVES_WITHIN_MS ? [`${who} left after ${Math.round(Number(tookMs))} ms`] : []
  })
  return finding('processes end only when asked to or killed, and leave in time', ends.length, broken)
}

const LINES = 14

/** A violation with what the processes noted about the event. */
function story(lines: readonly Line[], { w, to, id, key, n }: Omit<Expected, 'poisonAhead'>, what: string): string {
  const about = lines.filter((line) => {
    const isHere = line.to === undefined || line.to === to
    return (isHere && (line.ids as string[] | undefined)?.includes(id)) || (isHere && (line.w === w || line.id === id))
  })
  const shown = about.slice(-LINES).map(({ at, p, e, outcomes, ids, error }) => {
    const place = (ids as string[] | undefined)?.indexOf(id) ?? -1
    const detail = (outcomes as string[] | undefined)?.[place] ?? error ?? ''
    return `${new Date(at).toISOString().slice(11, 23)} ${p.padEnd(14)} ${e} ${detail}`
  })
  return [`${w} (${key}, ${n}) at ${to}: ${what}`, ...shown].join('\n')
}

function at(destination: string, name: string): string {
  return `${destination} ${name}`
}

export function groupedBy<Item>(items: readonly Item[], of: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) groups.set(of(item), [...(groups.get(of(item)) ?? []), item])
  return groups
}
