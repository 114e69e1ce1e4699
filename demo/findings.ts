/** The end of a demo: findings beside expectations. */
import type { Screen } from './screen.ts'

export interface Finding {
  readonly what: string
  readonly found: number
  readonly expected: number
  /** It cannot happen in this run, so that zero proves nothing. */
  readonly isMoot?: boolean
}

export function isRight({ found, expected }: Finding): boolean {
  return found === expected
}

/** Whether every number is right. */
export function showFindings(screen: Screen, title: string, findings: readonly Finding[]): boolean {
  screen.print(`  ${screen.paint(title.padEnd(57), 'bold')}${screen.paint('found  expected', 'dim')}`)
  for (const finding of findings) screen.print(`  ${lineOf(screen, finding)}`)
  return findings.every((finding) => finding.isMoot || isRight(finding))
}

function lineOf(screen: Screen, finding: Finding): string {
  const { what, found, expected, isMoot } = finding
  if (isMoot) return screen.paint(`${what.padEnd(57)}${String(found).padStart(5)}${'–'.padStart(10)}  –`, 'dim')
  const mark = isRight(finding) ? screen.paint('✓', 'green') : screen.paint('✗', 'red')
  return `${what.padEnd(57)}${String(found).padStart(5)}${String(expected).padStart(10)}  ${mark}`
}
