import type { Seat } from '../../src/ring/map.ts'

/** The seats 1 to `count`, of equal weight: what a fleet that only grew has. */
export function seatsTo(count: number): Seat[] {
  return Array.from({ length: count }, (_, index) => ({ number: index + 1, weight: 1 }))
}
