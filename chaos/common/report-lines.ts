import type { Finding } from './finding.ts'

const WIDTH = 100
/** How many violations are printed, so that a report stays readable. */
const EXAMPLES = 5

/** One paragraph for each `section: name` among the counts. */
export function countLines(counts: ReadonlyMap<string, number>): string[] {
  const sections = new Map<string, string[]>()
  for (const [name, times] of counts) {
    const [section, what] = name.includes(': ') ? splitOnce(name) : ['the run', name]
    sections.set(section, [...(sections.get(section) ?? []), `${what} ${times}`])
  }
  const width = Math.max(10, ...[...sections.keys()].map(({ length }) => length))
  return [...sections].flatMap(([section, items]) => wrapped(`  ${section.padEnd(width)}`, items))
}

export function findingLines(findings: readonly Finding[]): string[] {
  return findings.flatMap(({ promise, checked, broken }) => [
    `  ${broken.length === 0 ? '✓' : '✗'} ${promise} (${checked})`,
    ...broken.slice(0, EXAMPLES).map((example) => `      ${example.replaceAll('\n', '\n        ')}`),
    ...(broken.length > EXAMPLES ? [`      and ${broken.length - EXAMPLES} more`] : []),
  ])
}

function splitOnce(name: string): [string, string] {
  const at = name.indexOf(': ')
  return [name.slice(0, at), name.slice(at + 2)]
}

function wrapped(title: string, items: readonly string[]): string[] {
  const lines = [title]
  for (const item of items) {
    const last = lines.at(-1)!
    if (last.length + item.length + 2 > WIDTH) lines.push(`${' '.repeat(title.length)}  ${item}`)
    else lines[lines.length - 1] = `${last}  ${item}`
  }
  return lines
}
