// `npm run chaos:sqs` in short, and with seeded bugs that it must detect.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check } from '../../chaos/sqs/checker.ts'
import { drive } from '../../chaos/sqs/drive.ts'
import { planOf } from '../../chaos/sqs/plan.ts'
import { reportOf } from '../../chaos/sqs/report.ts'
import { freshDatabase } from '../support/database.ts'

async function run(url: string, seed: number, seconds: number, broken: boolean) {
  const plan = planOf(seed, seconds * 1_000, 10 * seconds)
  const evidence = await drive(plan, { url, broken })
  const findings = check(plan, evidence)
  return { findings, report: reportOf(plan, evidence.counts, findings) }
}

test('every promise holds through kills, stops, cuts, duplicates and lost replies', async (t) => {
  const { url } = await freshDatabase(t)
  const { findings, report } = await run(url, 1, 5, false)
  for (const { promise, broken } of findings) assert.deepEqual(broken, [], `${promise}\n${report}`)
})

test('the checker detects each seeded bug', async (t) => {
  const { url } = await freshDatabase(t)
  const { findings, report } = await run(url, 2, 5, true)
  const broken = findings.filter((finding) => finding.broken.length > 0).map(({ promise }) => promise)
  for (const promise of [
    'an effect with a key happened once',
    'an effect in the transaction of its message happened once',
    'a message became one job, and that is completed',
    'each group is handled in its order, each message once',
  ]) {
    assert.ok(broken.includes(promise), `${promise}\n${report}`)
  }
})
