// The shapes that a distributed Postgres (Citus) accepts, and plain Postgres runs at no extra cost. Each was refused there,
// or crashed its coordinator, when it was tried: statements and migrations keep to them, so that a schema can be moved.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { MIGRATIONS } from '../../src/db/migrations.generated.ts'
import { ALL } from './catalogue.ts'

const migrations = MIGRATIONS.flatMap(({ statements }) => statements)
const everything = [...ALL, ...migrations].map((sql) => sql.replaceAll(/--[^\n]*/g, ''))

/** Immutable, and so allowed. */
const IMMUTABLE = new RegExp(
  `^(${[
    String.raw`encode\(timestamptz_send\([\w.]+\), 'hex'\)`,
    String.raw`nullif\([\w.]+, [\w.]+(::smallint)?\)`,
    String.raw`case when job\.created_at <> job\.available_at then encode\(timestamptz_send\(job\.created_at\), 'hex'\) end`,
    String.raw`case when job\.key_seq is not null and job\.queue = any \(\w+\) then job\.key_seq\s+when job\.parent_id is not null then -1 end`,
  ].join('|')})$`,
)

test('RETURNING lists plain columns', () => {
  let found = 0
  for (const sql of everything) {
    // To the end of its statement: the parenthesis that closes its CTE, a semicolon, or the end.
    for (const [, list] of sql.matchAll(/\breturning ((?:[^();]|\((?:[^()]|\([^()]*\))*\))*)/g)) {
      found++
      // A function may keep what is returned in a variable.
      for (const item of itemsOf(list!.replace(/\sinto \w+$/, ''))) {
        assert.ok(/^[\w.*]+$/.test(item) || IMMUTABLE.test(item), `returning ${item}`)
        assert.notEqual(item, 'true', 'a literal is no column')
      }
    }
  }
  assert.ok(found > 10, `${found} lists were looked at`)
})

/** Split at the commas that stand in no parenthesis. */
function itemsOf(list: string): string[] {
  return [...list.matchAll(/(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+/g)].map(([item]) => item!.trim())
}

test('SET calls no volatile function, and no stable one on a column', () => {
  for (const sql of everything) {
    for (const [, set] of sql.matchAll(/\bupdate leasehold\.\w+\s+set\s([\s\S]*?)\bwhere\b/g)) {
      assert.doesNotMatch(set!, /\b(random|gen_random_uuid|clock_timestamp|nextval)\(/, set)
      assert.doesNotMatch(set!, /\b\w+_at\s*[+-]\s*interval/, `time arithmetic on a column: ${set}`)
      assert.doesNotMatch(set!, /\[\w+\]/, `an array subscript: ${set}`)
      assert.doesNotMatch(set!, /\b(case|coalesce)\b[^,]*leasehold\.clock\(\)/, `the clock inside CASE: ${set}`)
    }
  }
})

test('ON CONFLICT DO UPDATE assigns excluded values, and nothing computed', () => {
  for (const sql of everything) {
    for (const [, clause] of sql.matchAll(/\bdo update set\s([\s\S]*?)(?:\breturning\b|;|\n\)|\n\w|$)/g)) {
      const [set, where = ''] = clause!.split(/\bwhere\b/)
      // A constant is not computed.
      assert.match(set!.trim(), /^(\w+ = (excluded\.\w+|true)(,\s*)?)+$/, set)
      assert.doesNotMatch(where, /\bselect\b|\b(?!any\b)\w+\(/, where)
    }
  }
})

test('an INSERT of values holds no subselect', () => {
  for (const sql of everything) {
    for (const [, values] of sql.matchAll(
      /\binsert into leasehold\.\w+ \([^)]*\)\s+values\s*\(([\s\S]*?)\n?\s*(?:\);|\)\n|on conflict|$)/g,
    )) {
      assert.doesNotMatch(values!, /\bselect\b/, values)
    }
  }
})

test('the outer select that finishes, requeues or notifies reads no table', () => {
  for (const sql of ALL.filter((text) => /leasehold\.(finish|requeue|tell)\(/.test(text) && text.includes('with '))) {
    const outer = sql.slice(sql.lastIndexOf('\n)\nselect'))
    assert.ok(outer.startsWith('\n)\nselect'), sql.split('\n')[0])
    assert.doesNotMatch(outer, /\b(from|join) leasehold\./, sql.split('\n')[0])
  }
})

test('migrations hold no trigger, no identity column, no owned sequence, and one DDL statement a message', () => {
  for (const sql of migrations) {
    assert.doesNotMatch(sql, /create trigger|generated (always|by default) as identity|owned by/i)
  }
  const source = readFileSync(new URL('../../src/db/migrate.ts', import.meta.url), 'utf8')
  assert.match(source, /for \(const statement of [^)]*statements\)/, 'each statement is sent on its own')
})
