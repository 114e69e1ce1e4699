// The SQL that the pages show: run as it is, in the order it is shown, and it changes as many rows as the page says.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { splitSql } from '../tools/split-sql.ts'
import { freshDatabase } from './support/database.ts'

/** Every statement of the page's SQL, with the number of rows that a comment behind it promises. */
function statementsOf(page: string): { sql: string; rows: number | undefined }[] {
  const text = readFileSync(new URL(`../docs/${page}`, import.meta.url), 'utf8')
  const blocks = [...text.matchAll(/```sql\n([\s\S]*?)```/g)].map(([, block]) => block!)
  // A comment behind a semicolon belongs to the statement before it.
  const all = blocks.flatMap((block) => splitSql(block.replaceAll(/;( -- (\d+) rows?)$/gm, '$1\n;')))
  return all.map((sql) => {
    const promised = / -- (\d+) rows?$/.exec(sql)?.[1]
    return { sql, rows: promised === undefined ? undefined : Number(promised) }
  })
}

for (const page of ['which-pattern.md', 'write-guard.md']) {
  test(`the SQL in docs/${page} does what it says`, async (t) => {
    const db = await freshDatabase(t)
    const client = await db.connect()
    const statements = statementsOf(page)
    assert.ok(statements.filter(({ rows }) => rows !== undefined).length >= 8)
    for (const { sql, rows } of statements) {
      const { rowCount } = await client.query(sql).catch((error) => assert.fail(`${error.message} in:\n${sql}`))
      if (rows !== undefined) assert.equal(rowCount, rows, sql)
    }
    const left = await client.query("select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")
    assert.equal(left.rowCount, 0, 'a lock is left')
    await assert.rejects(client.query('savepoint outside'), { code: '25P01' }, 'a transaction is left open')
  })
}

test('the links of every page within the repository lead somewhere', () => {
  const pages = readdirSync(new URL('../docs', import.meta.url)).filter((name) => name.endsWith('.md'))
  assert.ok(pages.length > 5)
  for (const page of ['README.md', 'ARCHITECTURE.md', ...pages.map((name) => `docs/${name}`)]) {
    const at = new URL(`../${page}`, import.meta.url)
    for (const [, target] of readFileSync(at, 'utf8').matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      assert.ok(existsSync(new URL(target!, at)), `${target} in ${page}`)
    }
  }
})
