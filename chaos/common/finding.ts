/** The result of a checker for one promise. */
export interface Finding {
  readonly promise: string
  /** How many items were checked. */
  readonly checked: number
  /** The violations. */
  readonly broken: readonly string[]
}

export function finding(promise: string, checked: number, broken: readonly string[]): Finding {
  return { promise, checked, broken }
}

/** Missing, duplicate and unexpected items. */
export function exactlyOnce(expected: readonly string[], found: readonly string[]): string[] {
  const times = new Map(expected.map((name) => [name, 0]))
  const unexpected = found.filter((name) => !times.has(name))
  for (const name of found) times.set(name, (times.get(name) ?? 0) + 1)
  const wrong = expected.filter((name) => times.get(name) !== 1)
  return [
    ...wrong.map((name) => `${name}: ${times.get(name) === 0 ? 'never' : `${times.get(name)} times`}`),
    ...unexpected.map((name) => `${name}: not expected`),
  ]
}
