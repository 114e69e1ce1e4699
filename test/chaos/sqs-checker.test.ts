// The checker of `npm run chaos:sqs` on made-up evidence: it accepts correct evidence, and reports each fault.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check } from '../../chaos/sqs/checker.ts'
import { checkCoverage, mustHappen } from '../../chaos/sqs/coverage.ts'
import type { Evidence } from '../../chaos/sqs/evidence.ts'
import { bodyOf, type Plan, planOf, WAYS, type Way } from '../../chaos/sqs/plan.ts'
import { effectOf } from '../../chaos/sqs/ways.ts'

const plan = planOf(1, 10_000, 40)

function good(...ways: Way[]) {
  return plan.messages.filter(({ way, poison }) => ways.includes(way) && poison === undefined)
}

/** Correct evidence. */
function evidence(): Evidence {
  const rows = good('two phases', 'one update')
  return {
    rows: rows.map(({ way, id }) => ({ way, id, status: 'completed', result: `${id}`, token: `${id}` })),
    finished: rows.map(({ way, id }) => ({ way, id })),
    happened: good(...WAYS).map(({ way, id }) => effectOf(way, id)),
    effects: good('once per message').map(({ id }) => id),
    jobs: good('into a queue').map(({ id }) => ({ key: String(id), status: 'completed' })),
    line: good('in order').map(({ group, id }) => ({ group: group!, id })),
    poison: plan.messages.flatMap((message) =>
      message.poison === undefined ? [] : [{ body: bodyOf(message), reason: message.poison }],
    ),
    wornOut: [],
    left: [],
    ends: [
      { struck: 'SIGKILL', code: null, signal: 'SIGKILL', tookMs: 3, stderr: '' },
      { struck: 'SIGTERM', code: 0, signal: null, tookMs: 3_000, stderr: '' },
    ],
    connections: 0,
    counts: new Map(),
  }
}

/** The findings: the beginning of each broken promise with its first example. */
function found(changed: Partial<Evidence>): string[] {
  return check(plan, { ...evidence(), ...changed })
    .filter(({ broken }) => broken.length > 0)
    .map(({ promise, broken }) => `${promise}: ${broken[0]}`)
}

test('correct evidence passes, and every promise checks something', () => {
  assert.deepEqual(found({}), [])
  for (const { promise, checked } of check(plan, evidence())) assert.ok(checked > 0, promise)
  const again = { ...evidence().poison[0]! }
  const counts = new Map([['message: redelivered', 1]])
  assert.deepEqual(found({ poison: [...evidence().poison, again], counts }), [])
})

test('each fault is reported', () => {
  const { rows, finished, happened, effects, jobs, line, poison, ends } = evidence()
  const [row] = rows
  const [first, second] = line.filter(({ group }) => group === line[0]!.group)
  const swapped = line.map((each) => (each === first ? second! : each === second ? first! : each))
  const leaver = ends[1]!
  const cases: readonly [Partial<Evidence>, RegExp][] = [
    [{ left: ['3 messages'] }, /^everything came to its end.*3 messages/],
    [{ rows: rows.slice(1) }, /^every row is completed.*never/],
    [{ rows: [{ ...row!, status: 'error' }, ...rows.slice(1)] }, /^every row is completed.*never/],
    [{ rows: [{ ...row!, way: 'two phases', result: 'x' }] }, /a row has the result.*not the holder's/],
    [{ finished: [...finished, finished[0]!] }, /^no row was completed twice.*2 times/],
    [{ happened: [...happened, happened[0]!] }, /^an effect with a key.*2 times/],
    [{ happened: happened.slice(1) }, /^an effect with a key.*never/],
    [{ happened: [...happened, 'two phases/0'] }, /^an effect with a key.*not expected/],
    [{ effects: [...effects, effects[0]!] }, /^an effect in the transaction.*2 times/],
    [{ effects: effects.slice(1) }, /^an effect in the transaction.*never/],
    [{ jobs: [...jobs, jobs[0]!] }, /^a message became one job.*2 times/],
    [{ jobs: [{ ...jobs[0]!, status: 'dead_letter' }, ...jobs.slice(1)] }, /^a message became one job.*never/],
    [{ line: swapped }, /^each group is handled in its order.*from place 1 on/],
    [{ line: [...line, line[0]!] }, /^each group is handled in its order.*instead of/],
    [{ line: line.slice(0, -1) }, /^each group is handled in its order.*nothing|instead of/],
    [{ poison: poison.slice(1) }, /^what can never be handled.*missing/],
    [{ poison: [...poison, poison[0]!] }, /^what can never be handled.*1 dead letters too many/],
    [{ poison: [...poison, { body: '{"id":1}', reason: 'fatal' }] }, /^what can never be handled.*can be handled/],
    [{ poison: [{ ...poison[0]!, reason: 'odd' }, ...poison.slice(1)] }, /^what can never be handled.*odd, not/],
    [{ wornOut: ['{"id":1}'] }, /^nothing was delivered until SQS gave it up/],
    [{ ends: [{ ...leaver, code: 1 }] }, /^whoever is asked to leave/],
    [{ ends: [{ ...leaver, tookMs: 60_000 }] }, /^whoever is asked to leave/],
    [{ ends: [{ ...leaver, struck: undefined, stderr: 'boom' }] }, /^no process ends unasked.*boom/],
    [{ connections: 2 }, /^no connection is left: 2/],
  ]
  for (const [changed, expected] of cases) {
    const all = found(changed)
    assert.ok(
      all.some((each) => expected.test(each)),
      `${expected} is not in ${all.join('\n')}`,
    )
  }
})

test('a missing event is reported', () => {
  const stale: Plan = { ...plan, refusesStaleHandles: true }
  const counts = new Map(mustHappen(stale).map((name) => [name, 1]))
  assert.deepEqual(checkCoverage(stale, counts).broken, [])
  counts.delete('SQS: stale handle')
  counts.set('strike: SIGSTOP', 0)
  assert.deepEqual(checkCoverage(stale, counts).broken, ['strike: SIGSTOP', 'SQS: stale handle'])
})

test('a seed gives the same plan each time, and every plan has every strike', () => {
  const plain = ({ messages, strikes }: Plan) => JSON.stringify({ messages, strikes })
  assert.equal(plain(planOf(7, 10_000, 20)), plain(planOf(7, 10_000, 20)))
  assert.notEqual(plain(planOf(8, 10_000, 20)), plain(planOf(7, 10_000, 20)))
  const { messages, strikes } = planOf(7, 5_000, 40)
  assert.deepEqual(new Set(strikes.map(({ what }) => what)).size, 7)
  assert.equal(new Set(messages.map(bodyOf)).size, messages.length)
  for (const group of new Set(messages.map((message) => message.group))) {
    const ids = messages.filter((message) => message.group === group && message.way === 'in order').map(({ id }) => id)
    assert.deepEqual(
      ids,
      ids.toSorted((one, other) => one - other),
    )
  }
})
