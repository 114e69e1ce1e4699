import type { SeededRandom } from '../../../tools/seeded-random.ts'

/** Mostly short, some long enough to be met by a fault, a few longer than a lease. */
export function durationFrom(random: SeededRandom): number {
  const [luck, length] = [random(), random()]
  if (luck < 0.03) return Math.round(2_200 + length * 1_500)
  if (luck < 0.2) return Math.round(200 + length * 1_000)
  return Math.round(length * 40)
}
