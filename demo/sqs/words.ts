/** The text before the story and after it. */
import { type Finding, showFindings } from '../findings.ts'
import type { Llm } from '../llm.ts'
import type { Screen } from '../screen.ts'
import { STUCK_AFTER } from '../summary.ts'
import { ALL_ROWS, CONCURRENCY, CONSUMERS, VISIBILITY } from './scale.ts'
import { NEEDS_CLAIM_OR_KEY } from './verdict.ts'

export function openingWords(screen: Screen, isUnguarded: boolean): string {
  const title = `Leasehold: SQS in front of Postgres${isUnguarded ? ', without the claim and the key' : ''}`
  const steps = isUnguarded
    ? 'calls the\n  LLM, writes the result into the row, and deletes the message.'
    : 'claims the\n  row, calls the LLM with a key, commits, and deletes the message.'
  const times = isUnguarded
    ? `SQS hides messages for ${VISIBILITY} here, and not for 30s,`
    : `SQS hides messages for ${VISIBILITY} here and a claim lasts for ${STUCK_AFTER}, not for 30s and 15m,`
  return `
  ${screen.paint(title, 'bold')}
  ${ALL_ROWS.length} rows want a summary, by an LLM that bills each call. SQS tells ${CONSUMERS} consumer
  processes which: twice, once more when one of them is silent, too early (before
  the row is there), or not at all.
  Each takes ${CONCURRENCY} messages at a time. What it does with a message: it ${steps}
  ${screen.paint('SQS is fauxqs, an emulator on loopback, and the client is the real AWS SDK.', 'dim')}
  ${screen.paint(times, 'dim')}
  ${screen.paint('so that you need not wait for a consumer that is silent.', 'dim')}
`
}

/** Whether every number is right. */
export function showVerdict(screen: Screen, found: readonly Finding[], llm: Llm, isUnguarded: boolean): boolean {
  const shown = found.map((finding) => ({
    ...finding,
    isMoot: isUnguarded && NEEDS_CLAIM_OR_KEY.includes(finding.what),
  }))
  const right = showFindings(screen, 'What the table says, SQS, and the LLM', shown)
  if (!isUnguarded) screen.print(screen.paint(honesty(llm), 'dim'))
  screen.print(`\n  ${screen.paint(summary(right, isUnguarded), right ? 'green' : 'red')}\n`)
  return right
}

function honesty(llm: Llm): string {
  const { calls, billed } = llm.bill(ALL_ROWS)
  return `
  ${calls} calls for ${billed} summaries: nobody can know whether a call that was cut off
  has happened, so it is made again. This LLM knew the key and billed once. One
  that takes no keys would have billed twice, and no database can help that.`
}

export function whatElse(screen: Screen, isUnguarded: boolean): string {
  const command = screen.paint(`npm run demo:sqs${isUnguarded ? '' : ' -- --unguarded'}`.padEnd(34), 'cyan')
  return `  ${command}${isUnguarded ? 'with the claim and the key' : 'the same without the claim and the key'}\n`
}

function summary(right: boolean, isUnguarded: boolean): string {
  if (right) return 'No row was lost, and none was billed twice.'
  return isUnguarded ? 'That is what the claim and the key are for.' : 'That is not as it should be.'
}
