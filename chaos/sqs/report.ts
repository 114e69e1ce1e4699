import type { Finding } from '../common/finding.ts'
import { countLines, findingLines } from '../common/report-lines.ts'
import type { Plan } from './plan.ts'

export function reportOf(plan: Plan, counts: ReadonlyMap<string, number>, findings: readonly Finding[]): string {
  const poison = plan.messages.filter((message) => message.poison !== undefined).length
  return [
    `${plan.messages.length} messages, ${poison} of them poison; ${plan.strikes.length} strikes planned.`,
    '',
    ...countLines(counts),
    '',
    ...findingLines(findings),
  ].join('\n')
}
