// A made-up history of a chaos run of the outbox, as it should be. Tests change it.
import type { Line } from '../../chaos/common/witness.ts'
import type { CommittedRow, EffectRow, UnsentRow } from '../../chaos/outbox/evidence.ts'

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** When all but the blocked keys were through, and when the two dead letters of `poison:0` were let go. */
const [QUIET, FIRST, SECOND] = [50_000, 50_100, 52_100]

/** Each event: its key, whether it is poison, and when it is received at each destination, if it is. */
const EVENTS: Readonly<Record<string, readonly [key: string, poison: boolean, at: Readonly<Record<string, number>>]>> =
  {
    a: ['order:1', false, { ledger: 1_100, stock: 1_200, audit: 1_300 }],
    b: ['order:1', false, { ledger: 2_100, stock: 2_200, audit: 2_300 }],
    c: ['poison:0', false, { ledger: 3_100, stock: 3_200, audit: 3_300 }],
    p: ['poison:0', true, {}],
    d: ['poison:0', false, { ledger: 5_100, stock: FIRST + 100 }],
    q: ['poison:0', true, {}],
    e: ['poison:0', false, { ledger: 6_100, stock: SECOND + 100 }],
  }

export const idOf = (w: string) => `id-${w}`

export class Draft {
  lines: Mutable<Line>[] = []
  committed: Mutable<CommittedRow>[] = []
  effects: Mutable<EffectRow>[] = []
  unsent: Mutable<UnsentRow>[] = []
  stored = 5

  note(p: string, at: number, e: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.lines.push({ p, n: this.lines.length, at, e, ...details })
  }

  receive(destination: string, w: string, at: number): void {
    const { key, id, digest } = this.event(w)
    this.note('consumer-3.3', at, 'delivered', { to: destination, id, w, times: 1 })
    this.effects.push({ destination, key, id, w, digest, process: 'consumer-3.3', at })
  }

  letter(destination: string, w: string, reason: string): void {
    const error = reason === 'fatal' ? 'message size exceeds maximum allowed (10054)' : null
    this.unsent.push({ destination, id: idOf(w), status: 'dead_letter', reason, error, isStored: true })
  }

  event(w: string): Mutable<CommittedRow> {
    return this.committed.find((each) => each.w === w)!
  }

  effect(destination: string, w: string): Mutable<EffectRow> {
    return this.effects.find((each) => each.destination === destination && each.w === w)!
  }

  dropEffect(destination: string, w: string): void {
    this.effects = this.effects.filter((each) => each !== this.effect(destination, w))
  }

  /** By the order in which they happened. */
  history() {
    const effects = this.effects.toSorted((one, other) => one.at - other.at)
    const { lines, committed, unsent, stored } = this
    return { lines, rows: { committed, effects, unsent, stored } }
  }
}

export function asItShouldBe(): Draft {
  const draft = new Draft()
  const places = new Map<string, number>()
  for (const [w, [key, poison]] of Object.entries(EVENTS)) {
    const n = (places.get(key) ?? 0) + 1
    places.set(key, n)
    draft.committed.push({ id: idOf(w), w, key, n, poison, digest: `digest-${w}` })
    draft.note('producer-6.6', 500, 'published', { names: [w], ids: [idOf(w)] })
    draft.note('producer-6.6', 510, 'committed', { names: [w] })
  }
  draft.note('producer-6.6', 600, 'published', { names: ['undone'], ids: [idOf('undone')] })
  draft.note('producer-6.6', 610, 'rolled back', { names: ['undone'] })
  draft.note('producer-7.7', 620, 'dies', { names: ['dead'] })
  for (const [w, [, , times]] of Object.entries(EVENTS)) {
    for (const [to, at] of Object.entries(times)) {
      draft.note('relay-0.0', at - 20, 'sends', { to, ids: [idOf(w)] })
      draft.note('relay-0.0', at - 10, 'sent', { to, ids: [idOf(w)], outcomes: ['acknowledged'] })
      draft.receive(to, w, at)
    }
  }
  // A copy of a, which the inbox drops.
  draft.note('relay-0.0', 2_500, 'sends', { to: 'ledger', ids: [idOf('a')] })
  draft.note('relay-0.0', 2_600, 'unsent', { to: 'ledger', ids: [idOf('a')], error: 'DestinationUnavailable' })
  draft.note('consumer-3.3', 2_700, 'delivered', { to: 'ledger', id: idOf('a'), w: 'a', times: 1 })
  draft.note('consumer-3.3', 2_710, 'duplicate', { message: idOf('a') })
  for (const to of ['ledger', 'stock', 'audit']) draft.letter(to, 'p', 'fatal')
  for (const to of ['ledger', 'stock']) draft.letter(to, 'q', 'fatal')
  for (const w of ['d', 'q', 'e']) draft.letter('audit', w, 'parked')
  draft.note('harness', QUIET, 'quiet', { left: [] })
  for (const askedAt of [FIRST, SECOND])
    draft.note('harness', askedAt, 'unblock', { destination: 'stock', key: 'poison:0', outcome: 'unblocked', askedAt })
  const killed = { struck: 'SIGKILL', code: null, signal: 'SIGKILL', tookMs: 5, stderr: '' }
  draft.note('harness', 900, 'end', { who: 'relay-1.1', ...killed })
  draft.note('harness', 900, 'end', { ...killed, who: 'producer-7.7', struck: undefined })
  draft.note('harness', 60_000, 'end', { who: 'relay-0.0', struck: 'SIGTERM', code: 0, signal: null, tookMs: 900 })
  return draft
}
