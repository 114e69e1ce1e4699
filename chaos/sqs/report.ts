import type { Finding } from './checker.ts'
import type { Plan } from './plan.ts'

const WIDTH = 100
/** Of what does not hold, so that a report can be read. */
const EXAMPLES = 5

export function reportOf(plan: Plan, counts: ReadonlyMap<string, number>, findings: readonly Finding[]): string {
  const poison = plan.messages.filter((message) => message.poison !== undefined).length
  const sections = new Map<string, string[]>()
  for (const [name, times] of counts) {
    const [section, what] = name.includes(': ') ? splitOnce(name) : ['the run', name]
    sections.set(section, [...(sections.get(section) ?? []), `${what} ${times}`])
  }
  const lines = [
    `${plan.messages.length} messages, ${poison} of them poison; ${plan.strikes.length} strikes planned.`,
    '',
  ]
  for (const [section, items] of sections) lines.push(...wrapped(`  ${section.padEnd(10)}`, items))
  lines.push('')
  for (const { promise, checked, broken } of findings) {
    lines.push(`  ${broken.length === 0 ? '✓' : '✗'} ${promise} (${checked})`)
    for (const example of broken.slice(0, EXAMPLES)) lines.push(`      ${example}`)
    if (broken.length > EXAMPLES) lines.push(`      and ${broken.length - EXAMPLES} more`)
  }
  return lines.join('\n')
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
