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
  const all: (Card & { readonly atMs: number })[] = []
  const every = Math.min(everyMs, durationMs / (deck.length + 1))
  let cards: (() => Card)[] = []
  for (let atMs = every; atMs < durationMs; atMs += every) {
    if (cards.length === 0) cards = shuffled(deck, random)
    all.push({ atMs, ...cards.pop()!() })
  }
  return all
}
