/** Compares the evidence with the promises. Knows no database and no queue: it compares the evidence with the plan. */
import { type Finding, finding, exactlyOnce as once } from '../common/finding.ts'
import type { Evidence } from './evidence.ts'
import { bodyOf, type Plan, type PlannedMessage, WAYS, type Way } from './plan.ts'
import { effectOf } from './ways.ts'

/** Grace, a second, and ten for the last requests to SQS; the rest is for a busy machine. */
const LEAVES_WITHIN_MS = 25_000

export function check(plan: Plan, evidence: Evidence): Finding[] {
  const { rows, finished, happened, effects, jobs, line, poison, wornOut, left, ends, connections } = evidence
  const good = (...ways: Way[]) => plan.messages.filter((each) => each.poison === undefined && ways.includes(each.way))
  const withRow = good('two phases', 'one update')
  const all = good(...WAYS)
  const nameOf = ({ way, id }: { readonly way: Way; readonly id: number }) => effectOf(way, id)
  const completed = rows.filter(({ status }) => status === 'completed')
  const twoPhases = completed.filter(({ way }) => way === 'two phases')
  const leavers = ends.filter(({ struck }) => struck === 'SIGTERM')
  const groups = [...new Set(good('in order').map(({ group }) => group!))]
  return [
    finding('everything came to its end in time', 1, left),
    finding('every row is completed', withRow.length, once(withRow.map(nameOf), completed.map(nameOf))),
    finding('no row was completed twice', finished.length, once(withRow.map(nameOf), finished.map(nameOf))),
    finding('a row has the result of whoever held it last', twoPhases.length, [
      ...twoPhases.filter(({ result, token }) => result !== token).map((row) => `${nameOf(row)}: not the holder's`),
    ]),
    finding('an effect with a key happened once', all.length, once(all.map(nameOf), happened)),
    finding(
      'an effect in the transaction of its message happened once',
      good('once per message').length,
      once(ids(good('once per message')), effects.map(String)),
    ),
    finding(
      'a message became one job, and that is completed',
      good('into a queue').length,
      once(
        good('into a queue').map(({ id }) => `${id} completed`),
        jobs.map(({ key, status }) => `${key} ${status}`),
      ),
    ),
    finding(
      'each group is handled in its order, each message once',
      good('in order').length,
      groups.flatMap((group) => {
        const expected = ids(good('in order').filter((each) => each.group === group))
        const found = ids(line.filter((each) => each.group === group))
        return expected.join() === found.join() ? [] : [`${group}: ${firstDifference(expected, found)}`]
      }),
    ),
    poisonFinding(plan, evidence, poison),
    finding('nothing was delivered until SQS gave it up', plan.messages.length, wornOut),
    finding(
      'whoever is asked to leave leaves in time',
      leavers.length,
      leavers
        .filter(({ code, tookMs }) => code !== 0 || tookMs > LEAVES_WITHIN_MS)
        .map(({ code, signal, tookMs, stderr }) => `${signal ?? code} after ${Math.round(tookMs)} ms ${stderr}`),
    ),
    finding(
      'no process ends unasked',
      ends.length,
      ends
        .filter(({ struck }) => struck === undefined)
        .map(({ code, signal, stderr }) => `${signal ?? code} ${stderr}`),
    ),
    finding('no connection is left', 1, connections === 0 ? [] : [`${connections} are left`]),
  ]
}

/** Each at least once, with its reason, and nothing else. Twice only after a duplicate delivery or a lost reply. */
function poisonFinding(plan: Plan, { counts }: Evidence, letters: Evidence['poison']): Finding {
  const poisonous = plan.messages.filter(({ poison }) => poison !== undefined)
  const expected = new Map(poisonous.map((message) => [bodyOf(message), message.poison]))
  const found = new Set(letters.map(({ body }) => body))
  const broken = poisonous
    .filter((message) => !found.has(bodyOf(message)))
    .map(({ way, id }) => `${way}/${id}: missing`)
  for (const { body, reason } of letters) {
    const right = expected.get(body)
    if (right === undefined) broken.push(`${body.slice(0, 80)}: can be handled`)
    else if (right !== reason) broken.push(`${body.slice(0, 80)}: ${reason}, not ${right}`)
  }
  const more = letters.length - found.size
  const excuses = ['SQS: duplicate', 'SQS: drop reply', 'SQS: cut reply', 'message: redelivered']
  const excused = excuses.reduce((sum, excuse) => sum + (counts.get(excuse) ?? 0), 0)
  if (more > excused) broken.push(`${more} dead letters too many`)
  return finding('what can never be handled is a dead letter, and nothing else is', poisonous.length, broken)
}

function ids(messages: readonly Pick<PlannedMessage, 'id'>[]): string[] {
  return messages.map(({ id }) => String(id))
}

function firstDifference(expected: readonly string[], found: readonly string[]): string {
  const at = [...expected, ''].findIndex((id, index) => id !== (found[index] ?? ''))
  const some = (list: readonly string[]) => list.slice(Math.max(0, at - 1), at + 4).join(' ') || 'nothing'
  return `from place ${at + 1} on ${some(found)} instead of ${some(expected)}`
}
