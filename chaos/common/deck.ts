/** The faults of a run, as cards: a kind of fault has some in a deck, and each card has its numbers. */
import { type SeededRandom, shuffled } from '../../tools/seeded-random.ts'

/**
 * Deals cards at even intervals, from a deck that is shuffled anew when it is used up: each card comes as often as any
 * other.
 */
export function dealt<Card extends object>(
  deck: readonly (() => Card)[],
  random: SeededRandom,
  { durationMs, everyMs }: { readonly durationMs: number; readonly everyMs: number },
): (Card & { readonly atMs: number })[] {
  if (deck.length === 0) return []
  const all: (Card & { readonly atMs: number })[] = []
  const every = Math.min(everyMs, durationMs / (deck.length + 1))
  let cards: (() => Card)[] = []
  for (let atMs = every; atMs < durationMs; atMs += every) {
    if (cards.length === 0) cards = shuffled(deck, random)
    all.push({ atMs, ...cards.pop()!() })
  }
  return all
}

export interface FaultCard {
  readonly fault: string
  /** The choice of seat, table or statement, depending on the fault. */
  readonly pick: number
  /** How long it lasts, if it does. */
  readonly forMs: number
}
export type PlannedFault = FaultCard & { readonly atMs: number }

export interface FaultKind {
  readonly name: string
  /** In a deck. */
  readonly cards: number
  readonly ms?: readonly [number, number]
}

/** Of these kinds: all, or those named. Each lasts as long as its kind says, or as given. */
export function deckOf(
  kinds: readonly FaultKind[],
  random: SeededRandom,
  only?: readonly string[],
  duration?: readonly [number, number],
): (() => FaultCard)[] {
  const meant = kinds.filter(({ name }) => only === undefined || only.includes(name))
  return meant.flatMap(({ name, cards, ms = [0, 0] }) => {
    const [from, to] = duration ?? ms
    return Array.from({ length: cards }, () => () => ({
      fault: name,
      pick: random(),
      forMs: Math.round(from + random() * (to - from)),
    }))
  })
}
