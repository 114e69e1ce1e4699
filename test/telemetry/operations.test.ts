// The alerts, the dashboard and the runbooks: what they name exists, and the SQL of the runbooks runs. incident.test.ts follows them.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { METRICS } from '../../src/telemetry/metrics.ts'
import { splitSql } from '../../tools/split-sql.ts'
import { command } from '../support/command.ts'
import { freshDatabase } from '../support/database.ts'
import { commandsIn } from '../support/runbook.ts'

const ROOT = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8')
const alerts = read('ops/alerts.yml')
const dashboard = JSON.parse(read('ops/grafana-dashboard.json'))
const runbooks = readdirSync(new URL('docs/runbooks', ROOT)).sort()

/** The families that an expression names; a histogram by any of its series. */
function familiesIn(expression: string): string[] {
  return [...expression.matchAll(/\bleasehold_\w+/g)].map(([name]) => {
    const family = name.replace(/_(bucket|sum|count)$/, '')
    const isSeries = family !== name && METRICS[family as keyof typeof METRICS]?.type === 'histogram'
    return isSeries ? family : name
  })
}

test('every alert has an expression over exported metrics, a severity, a summary and a runbook that exists', () => {
  const rules = alerts.split(/^ {6}- alert: /m).slice(1)
  assert.ok(rules.length >= 10)
  const linked = new Set<string>()
  for (const rule of rules) {
    const [, expression] = /^ {8}expr: '([^'\n]+)'$/m.exec(rule) ?? assert.fail(rule)
    assert.ok(familiesIn(expression!).length > 0, rule)
    for (const name of familiesIn(expression!)) assert.ok(Object.hasOwn(METRICS, name), name)
    assert.match(rule, /^ {8}for: \d+m\n {8}labels:\n {10}severity: (warning|critical)\n {8}annotations:$/m)
    assert.match(rule, /^ {10}summary: '[^'\n]+'$/m)
    const [, runbook] = /^ {10}runbook: (docs\/runbooks\/[\w-]+\.md)$/m.exec(rule) ?? assert.fail(rule)
    assert.ok(existsSync(new URL(runbook!, ROOT)), runbook)
    assert.ok(read(runbook!).includes(`\`${rule.split('\n')[0]}\``), `${runbook} names ${rule.split('\n')[0]}`)
    linked.add(runbook!.split('/').at(-1)!)
  }
  assert.deepEqual([...linked].sort(), runbooks, 'every runbook has an alert')
})

test('alerts that wait for a 0 fire as well when no process serves metrics any more', () => {
  // A comparison with a series that is gone gives nothing, and nothing fires. Each process that serves metrics serves leasehold_up.
  const onZero = [...alerts.matchAll(/^ {6}- alert: (\w+)\n {8}expr: '([^'\n]* == 0[^'\n]*)'$/gm)]
  assert.deepEqual(
    onZero.map(([, name]) => name),
    ['LeaseholdDatabaseUnreachable', 'LeaseholdNoWorkers'],
  )
  for (const [, , expression] of onZero) assert.match(expression!, / == 0 or absent\(leasehold_up\)$/)
})

test('the dashboard uses exported metrics only, and shows each of them', () => {
  const expressions = dashboard.panels.flatMap((panel: { targets: { expr: string }[] }) =>
    panel.targets.map(({ expr }) => expr),
  )
  const used = new Set(expressions.flatMap(familiesIn))
  assert.deepEqual([...used].sort(), Object.keys(METRICS).sort())
})

test('docs/metrics.md lists every metric, in order', () => {
  const listed = [...read('docs/metrics.md').matchAll(/^\| `(leasehold_\w+)` \| (\w+) \|/gm)]
  assert.deepEqual(
    listed.map(([, name, type]) => [name, type]),
    Object.entries(METRICS).map(([name, { type }]) => [name, type]),
  )
})

for (const name of runbooks) {
  const page = read(`docs/runbooks/${name}`)
  test(`docs/runbooks/${name} has its parts, links that lead somewhere, commands that exist, and SQL that runs`, async (t) => {
    assert.deepEqual(
      [...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading),
      ['Confirm', 'What to do', 'Prevent'],
    )
    assert.match(page, /^\*\*Symptom\.\*\* /m)
    for (const [, target] of page.matchAll(/\]\(([^)#]+)/g)) {
      assert.ok(existsSync(new URL(target!, new URL('docs/runbooks/', ROOT))), target)
    }
    const commands = commandsIn(page)
    assert.ok(commands.length > 0)
    for (const line of commands) {
      const { code, err } = await command(undefined, ...line.replaceAll(/<\w+>/g, '1').split(' '), '--help')
      assert.equal(code, 0, `${line}: ${err}`)
    }
    const blocks = [...page.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, block]) => block!)
    assert.ok(blocks.length > 0)
    const client = await (await freshDatabase(t)).connect()
    for (const sql of blocks.flatMap(splitSql)) {
      await client.query(sql).catch((error) => assert.fail(`${error.message} in:\n${sql}`))
    }
  })
}
