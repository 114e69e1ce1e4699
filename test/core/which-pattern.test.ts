import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type PatternAnswers, whichPattern } from '../../src/core/which-pattern.ts'

const page = readFileSync(new URL('../../docs/which-pattern.md', import.meta.url), 'utf8')

type Tree = string | { readonly question: string; readonly yes: Tree; readonly no: Tree }

/** The tree as the page draws it: a question, then a branch for yes and one for no, four columns further in. */
function readTree(): Tree {
  const lines = /```text\n([\s\S]*?)```/.exec(page)![1]!.trimEnd().split('\n')
  const read = (at: number, depth: number, said: string): Tree => {
    const leaf = /^→ (.+)$/.exec(said)?.[1]
    if (leaf !== undefined) return leaf
    const branch = (answer: string): Tree => {
      const begin = new RegExp(`^.{${depth * 4}}[├└]── ${answer}:? `)
      const from = lines.findIndex((line, index) => index > at && begin.test(line))
      // Not beyond the end of this question's own branches.
      const end = lines.findIndex((line, index) => index > at && line.search(/[\w├└]/) < depth * 4)
      assert.ok(from > at && (end === -1 || from < end), `${said} has no ${answer}`)
      return read(from, depth + 1, lines[from]!.replace(begin, ''))
    }
    return { question: /^(\w+): /.exec(said)![1]!, yes: branch('yes'), no: branch('no') }
  }
  return read(0, 0, lines[0]!)
}

function walk(tree: Tree, answer: (question: string) => boolean): string {
  if (typeof tree === 'string') return tree
  return walk(answer(tree.question) ? tree.yes : tree.no, answer)
}

const BOTH = [true, false]

function* combinations(): Generator<PatternAnswers> {
  const checks = [false as const, ...BOTH.flatMap((staticRule) => BOTH.map((parentRow) => ({ staticRule, parentRow })))]
  for (const checkThenInsert of checks)
    for (const leaseholdJob of BOTH)
      for (const effectMayRepeat of BOTH)
        for (const terminalTransition of BOTH)
          for (const sharedStateDuringWork of BOTH)
            yield { checkThenInsert, leaseholdJob, effectMayRepeat, terminalTransition, sharedStateDuringWork }
}

test('every combination of answers leads where the page leads, and the page has a place for it', () => {
  const tree = readTree()
  const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading!.toLowerCase())
  const reached = new Set<string>()
  let asked = 0
  for (const answers of combinations()) {
    asked++
    const { pattern, also, why, docs } = whichPattern(answers)
    const flat: Record<string, unknown> = { ...answers, ...(answers.checkThenInsert || {}) }
    assert.equal(
      pattern,
      walk(tree, (question) => Boolean(flat[question])),
      JSON.stringify(answers),
    )
    const isUncovered = pattern === 'dedupe table' && !answers.effectMayRepeat
    assert.deepEqual(also, [
      ...(isUncovered ? ['effects ledger'] : []),
      ...(answers.sharedStateDuringWork ? ['lock across the work'] : []),
    ])
    assert.equal(docs, `docs/which-pattern.md#${pattern.replaceAll(' ', '-')}`)
    assert.ok(why.length > 20)
    for (const each of [pattern, ...also]) reached.add(each)
  }
  assert.equal(asked, 80)
  assert.deepEqual([...reached].sort(), headings.sort())
})

test('the four of the original tree', () => {
  const answers = { checkThenInsert: false, leaseholdJob: false, sharedStateDuringWork: false } as const
  const ask = (terminalTransition: boolean, effectMayRepeat: boolean) =>
    whichPattern({ ...answers, terminalTransition, effectMayRepeat }).pattern
  assert.deepEqual(
    [ask(false, true), ask(false, false), ask(true, true), ask(true, false)],
    ['dedupe table', 'dedupe table', 'single update', 'claim then commit'],
  )
})

test('a message whose effect outside the database must not repeat needs a job for it, and only such a message', () => {
  const answers = { checkThenInsert: false, leaseholdJob: false, sharedStateDuringWork: false } as const
  const ask = (terminalTransition: boolean, effectMayRepeat: boolean) =>
    whichPattern({ ...answers, terminalTransition, effectMayRepeat }).also
  assert.deepEqual(
    [ask(false, true), ask(false, false), ask(true, true), ask(true, false)],
    [[], ['effects ledger'], [], []],
  )
})

test('every leaf says what it prevents, what not, and what it costs, and shows its SQL', () => {
  for (const section of page.split(/^## /m).slice(1)) {
    for (const part of ['**Prevents**', '**Does not prevent**', '**Costs**', '```sql'])
      assert.ok(section.includes(part), `${section.split('\n')[0]}: ${part}`)
  }
})

test('a question that was not answered is not taken for a no', () => {
  const good = {
    checkThenInsert: { staticRule: true, parentRow: true },
    leaseholdJob: true,
    effectMayRepeat: true,
    terminalTransition: true,
    sharedStateDuringWork: true,
  }
  for (const name of Object.keys(good)) {
    assert.throws(() => whichPattern({ ...good, [name]: undefined }), { code: 'INVALID_OPTION' }, name)
  }
  const bad: unknown[] = [
    undefined,
    { ...good, checkThenInsert: true },
    { ...good, checkThenInsert: { staticRule: true } },
  ]
  for (const answers of bad) assert.throws(() => whichPattern(answers as PatternAnswers), { code: 'INVALID_OPTION' })
})
