// Runs the SQL of the pages unchanged, in order, and checks the promised numbers of changed rows. Compares what pages and
// examples share. samples.test.ts compiles the TypeScript of the pages, links.test.ts follows their links.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { splitSql } from '../tools/split-sql.ts'
import { printed, readPage } from '../tools/transports.ts'
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

for (const [page, least] of [
  ['which-pattern.md', 8],
  ['which-boundary.md', 5],
  ['write-guard.md', 8],
  ['sql.md', 8],
  ['many-workers.md', 1],
  ['changing-workflows.md', 2],
] as const) {
  test(`the SQL in docs/${page} changes the promised rows`, async (t) => {
    const db = await freshDatabase(t)
    const client = await db.connect()
    const statements = statementsOf(page)
    assert.ok(statements.filter(({ rows }) => rows !== undefined).length >= least)
    for (const { sql, rows } of statements) {
      const { rowCount } = await client.query(sql).catch((error) => assert.fail(`${error.message} in:\n${sql}`))
      if (rows !== undefined) assert.equal(rowCount, rows, sql)
    }
    const left = await client.query("select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")
    assert.equal(left.rowCount, 0, 'a lock is left')
    await assert.rejects(client.query('savepoint outside'), { code: '25P01' }, 'a transaction is left open')
  })
}

test('the code of docs/workflow-tutorial.md is that of examples/workflow, file by file', () => {
  const page = readFileSync(new URL('../docs/workflow-tutorial.md', import.meta.url), 'utf8')
  const blocks = [...page.matchAll(/```ts\n(\/\/ ([\w.]+\.ts)\n[\s\S]*?)```/g)]
  const names = readdirSync(new URL('../examples/workflow', import.meta.url))
  assert.deepEqual(blocks.map(([, , name]) => name).sort(), names.sort())
  for (const [, code, name] of blocks) {
    assert.equal(code, readFileSync(new URL(`../examples/workflow/${name}`, import.meta.url), 'utf8'), name)
  }
})

test('the cache in docs/many-workers.md is that of examples/ring', () => {
  const page = readFileSync(new URL('../docs/many-workers.md', import.meta.url), 'utf8')
  const [, code] = /```ts\n(\/\/ cart-worker\.ts\n[\s\S]*?)```/.exec(page) ?? []
  assert.equal(code, readFileSync(new URL('../examples/ring/cart-worker.ts', import.meta.url), 'utf8'))
})

test('the table in docs/transports.md is what the transports state; npm run transports prints it', () => {
  assert.equal(readPage(), printed(readPage()))
})
