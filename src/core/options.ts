import { InvalidOptionError } from './errors.ts'

/** Rejects unknown names: an ignored misspelt option is found only in production. */
export function checkOptions(of: string, given: unknown, known: readonly string[]): void {
  if (given === undefined) return
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidOptionError(of, `it must be an object of options; known are ${known.join(', ')}`)
  }
  for (const name of Object.keys(given)) {
    if (known.includes(name)) continue
    throw new InvalidOptionError(`${of}.${name}`, `there is no such option; ${likely(name, known)}`)
  }
}

/** Ends a message about an unknown name: the known one that was probably meant, or all of them. */
export function likely(name: string, known: readonly string[]): string {
  const near = known
    .map((candidate) => ({ candidate, distance: editDistance(name.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((a, b) => a.distance - b.distance)[0]
  return near === undefined ? `known are ${known.join(', ')}` : `did you mean ${near.candidate}?`
}

/** Levenshtein distance, row by row. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let line = 1; line <= from.length; line++) {
    const next = [line]
    for (let column = 1; column <= to.length; column++) {
      const replaced = row[column - 1]! + (from[line - 1] === to[column - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[column]! + 1, next[column - 1]! + 1))
    }
    row = next
  }
  return row[to.length]!
}
