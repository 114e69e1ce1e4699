// What is true of the checker of every chaos command: it accepts a correct history, each rule reports its own fault, and it shares
// no code with the library.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { FaultKind } from '../../chaos/common/deck.ts'
import type { Finding } from '../../chaos/common/finding.ts'

/** A fault in a history, and the rule that must report it. */
export type Cases<Draft> = Readonly<Record<string, readonly [change: (draft: Draft) => void, expected: RegExp]>>

export interface Checker<History, Draft> {
  /** As in `npm run chaos:<name>`. */
  readonly name: string
  check(history: History): readonly Finding[]
  asItShouldBe(): Draft
  readonly cases: Cases<Draft>
  readonly faults: readonly FaultKind[]
  readonly plants: Readonly<Record<string, { readonly faults: readonly string[]; readonly breaks: RegExp }>>
}

/** Returns what finds the broken rules of a history. */
export function checkerSuite<History, Draft extends { history(): History }>(
  checker: Checker<History, Draft>,
): (draft: Draft) => string[] {
  const { name, check, asItShouldBe, cases, faults, plants } = checker
  const rules = check(asItShouldBe().history()).map(({ promise }) => promise)
  const brokenIn = (draft: Draft) =>
    check(draft.history())
      .filter(({ broken }) => broken.length > 0)
      .map(({ promise, broken }) => `${promise}: ${broken[0]!.split('\n')[0]}`)

  test('a correct history breaks no rule, and every rule checks something', () => {
    assert.deepEqual(brokenIn(asItShouldBe()), [])
    for (const { promise, checked } of check(asItShouldBe().history())) assert.ok(checked > 0, promise)
  })

  for (const [fault, [change, expected]] of Object.entries(cases)) {
    test(`the checker reports: ${fault}`, () => {
      const draft = asItShouldBe()
      change(draft)
      const found = brokenIn(draft)
      assert.ok(
        found.some((each) => expected.test(each)),
        `${expected} is not in:\n${found.join('\n')}`,
      )
    })
  }

  test('every rule has a case', () => {
    const starts = Object.values(cases).map(([, { source }]) => source.replaceAll('\\', '').slice(1, 19))
    for (const rule of rules)
      assert.ok(
        starts.some((start) => rule.startsWith(start.split(':')[0]!.split('.*')[0]!)),
        rule,
      )
  })

  test('each plant names existing faults and an existing rule', () => {
    const names = faults.map(({ name }) => name)
    for (const [plant, { faults, breaks }] of Object.entries(plants)) {
      for (const fault of faults) assert.ok(names.includes(fault), `${plant}: ${fault}`)
      assert.ok(
        rules.some((rule) => breaks.test(rule)),
        plant,
      )
    }
  })

  test('the checker shares no code with the library', () => {
    const seen = new Set<string>()
    const follow = (path: string) => {
      if (seen.has(path)) return
      seen.add(path)
      const imports = readFileSync(path, 'utf8').matchAll(/^import (?!type)([^;]*?)from '(\.[^']+)'/gms)
      for (const [, names, target] of imports) {
        assert.doesNotMatch(target!, /\/src\//, `${path} imports ${names}`)
        follow(join(dirname(path), target!))
      }
    }
    follow(fileURLToPath(new URL(`../../chaos/${name}/checker.ts`, import.meta.url)))
    assert.ok(seen.size > 3)
  })

  return brokenIn
}
