/** How often each event has happened. */
export type Counts = Map<string, number>

export function count(counts: Counts, name: string, times = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + times)
}
