// Runs the SQL of the pages unchanged, in order, and checks the promised numbers of changed rows. Compiles the TypeScript of
// the pages on brokers, the inbox and workflows; package.test.ts runs that of the README, package-pages.test.ts
// that of the pages on transactions, testing and metrics.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
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

/** Declarations that the page assumes its reader has. */
const OF_THE_READER = `
declare function llm(prompt: object, options: { signal: AbortSignal; idempotencyKey?: string }): Promise<string>
declare function addSummary(tx: pg.ClientBase): Promise<string>
declare function handle(message: { readonly body: { readonly id: number } }): Promise<void>
declare function book(tx: pg.ClientBase, event: object): Promise<void>
declare const event: { id: string; amount: number; account: number; text: string }
declare const cache: { delete(id: number): Promise<boolean> }
declare const pino: Record<'debug' | 'info' | 'warn' | 'error', (rest: object, message: string) => void>
`

const OF_A_READER_WITH_WORKFLOWS = `
declare const stock: Record<'reserve' | 'release', (order: number) => Promise<void>>
declare const bank: { charge(cents: number, options: object): Promise<string>; refund(order: number): Promise<void> }
declare const mail: { send(order: number, parcel: string): Promise<void> }
declare function fetchRate(): Promise<number>
`

/** Functions that changing-workflows.md calls in steps. */
const CALLED = ['createAccount', 'sendWelcome', 'sendReminder', 'startTrial', 'audit', 'deleteAccount', 'ship', 'check']

for (const [name, least, ofTheReader] of [
  ['sqs.md', 4, OF_THE_READER],
  ['inbox.md', 1, OF_THE_READER],
  ['nats.md', 1, OF_THE_READER],
  ['transports.md', 2, OF_THE_READER],
  ['metrics.md', 4, ''],
  ['many-workers.md', 4, `declare const leasehold: Leasehold\ndeclare const handlers: import('leasehold').Handler[]`],
  ['workflows.md', 3, OF_A_READER_WITH_WORKFLOWS],
  ['changing-workflows.md', 5, CALLED.map((each) => `declare function ${each}(of: unknown): Promise<void>`).join('\n')],
  ['testing.md', 7, ''],
] as const) {
  test(`the TypeScript in docs/${name} compiles, one block after the other`, (t) =>
    compiles(t, name, least, ofTheReader))
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

/** Pages that do not say where their pool comes from. */
const IMPLIED = "import type pg from 'pg'\ndeclare const pool: pg.Pool\n"

function compiles(t: TestContext, name: string, least: number, ofTheReader: string): void {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const page = readFileSync(join(root, 'docs', name), 'utf8')
  const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block]) => block!)
  assert.ok(blocks.length >= least)
  const home = mkdtempSync(join(tmpdir(), 'leasehold page '))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))
  if (name === 'testing.md') {
    writeFileSync(join(home, 'package.json'), '{ "type": "module" }')
    for (const file of ['testing/receipts.ts', 'workflow/checkout.ts', 'workflow/services.ts']) {
      cpSync(join(root, 'examples', file), join(home, basename(file)))
    }
  }
  const code = blocks.join('\n')
  writeFileSync(join(home, 'page.mts'), (/from 'pg'|testDatabase/.test(code) ? '' : IMPLIED) + code + ofTheReader)
  const paths = {
    leasehold: [join(root, 'src/index.ts')],
    'leasehold/tables': [join(root, 'src/tables/index.ts')],
    'leasehold/inbox': [join(root, 'src/inbox/index.ts')],
    'leasehold/sqs': [join(root, 'src/sqs/index.ts')],
    'leasehold/nats': [join(root, 'src/nats/index.ts')],
    'leasehold/workflow': [join(root, 'src/workflow/index.ts')],
    'leasehold/testing': [join(root, 'src/testing/index.ts')],
    'leasehold/prometheus': [join(root, 'src/telemetry/prometheus.ts')],
    'leasehold/opentelemetry': [join(root, 'src/telemetry/opentelemetry.ts')],
  }
  const compilerOptions = { noUnusedLocals: false, paths }
  const config = { extends: join(root, 'tsconfig.json'), compilerOptions, include: ['page.mts'], exclude: [] }
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify(config))
  try {
    execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', home], { encoding: 'utf8' })
  } catch (error) {
    assert.fail((error as { stdout: string }).stdout)
  }
}

test('the table in docs/transports.md is what the transports state; npm run transports prints it', () => {
  assert.equal(readPage(), printed(readPage()))
})

test('the links of every page within the repository lead somewhere', () => {
  const pages = readdirSync(new URL('../docs', import.meta.url)).filter((name) => name.endsWith('.md'))
  assert.ok(pages.length > 5)
  for (const page of ['README.md', 'ARCHITECTURE.md', ...pages.map((name) => `docs/${name}`)]) {
    const at = new URL(`../${page}`, import.meta.url)
    const text = readFileSync(at, 'utf8').replaceAll(/```[\s\S]*?```/g, '')
    for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      assert.ok(existsSync(new URL(target!, at)), `${target} in ${page}`)
    }
  }
})
