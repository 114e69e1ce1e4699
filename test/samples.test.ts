// Compiles every TypeScript sample of README.md and docs/ against src/, as one program. docs.test.ts runs the SQL of the pages;
// package.test.ts and package-pages.test.ts run the programs of some, with the package as it is installed.
//
// A block that begins with the name of a file (`// api.ts`) is a module of its own, and has only what it imports. The other blocks
// of a page follow each other: each has the declarations of the blocks before it, and may declare a name again. All of them have
// what a block of the page imports, and what OF_THE_READER declares. Errors name the page and its line:
// docs/outbox.md/relay.ts(50,3) is line 50 of docs/outbox.md.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

const POOL = `declare const pool: import('pg').Pool;`
const LEASEHOLD = `declare const leasehold: import('leasehold').Leasehold;`
const HANDLERS = `declare const handlers: import('leasehold').Handler[];`
const LOGGER = (name: string) =>
  `declare const ${name}: Record<'debug' | 'info' | 'warn' | 'error', (rest: object, message: string) => void>;`

/** What the blocks of a page assume that their reader has. A page that is not here assumes nothing. */
const OF_THE_READER: Record<string, string> = {
  'README.md': `${POOL} ${LEASEHOLD} ${HANDLERS}
    interface Order { id: number; email: string }
    declare const order: Order;
    declare const tx: import('pg').ClientBase;
    declare const chargeOrder: import('leasehold').Kind<Order>;
    declare const bank: {
      charge(order: Order, options: { idempotencyKey: string }): Promise<{ receipt: string }>;
      refund(order: number): Promise<void>;
    };
    declare const mail: { send(to: string): Promise<void> };
    declare function book(tx: import('pg').ClientBase, what: object): Promise<void>;
    declare const id: string;
    declare const result: string;
    declare const prompt: string;
    declare const queueUrl: string;
    declare const parcel: string;
    declare function llm(prompt: string): Promise<string>;
    declare function publish(ids: readonly string[]): Promise<void>;
    declare const seen: readonly string[];
    declare function openIncidents(tx: import('pg').ClientBase): Promise<string[]>;
    declare function insertIncident(tx: import('pg').ClientBase): Promise<void>;`,
  'docs/changing-workflows.md': `
    declare function createAccount(email: string): Promise<void>;
    declare function sendWelcome(email: string): Promise<void>;
    declare function sendReminder(email: string): Promise<void>;
    declare function startTrial(email: string): Promise<void>;
    declare function audit(email: string): Promise<void>;
    declare function deleteAccount(email: string): Promise<void>;
    declare function check(order: number): Promise<void>;
    declare function ship(order: number): Promise<void>;`,
  'docs/effects.md': `${POOL} ${LEASEHOLD}
    declare const otherPool: import('pg').Pool;
    declare const sendInvoice: import('leasehold').Kind<{ account: number }>;
    declare const job: import('leasehold').Job<{ account: number }>;
    declare const jobId: string;
    declare const bank: {
      charge(invoice: object, options?: { idempotencyKey: string }): Promise<{ receipt: string; declined: boolean }>;
    };
    declare const mail: { send(receipt: string): Promise<void> };`,
  'docs/inbox.md': `${POOL}
    declare const event: { id: string; amount: number; account: number; text: string };
    declare function book(tx: import('pg').ClientBase, event: object): Promise<void>;`,
  'docs/many-workers.md': `${LEASEHOLD} ${HANDLERS}`,
  'docs/nats.md': POOL,
  'docs/order.md': `declare const event: string;`,
  'docs/outbox.md': `
    type Answer = { outcome: 'received'; receivedAt: string; duplicates: number } | { outcome: 'not_received' | 'forgotten' };
    declare function post(url: string, events: readonly import('leasehold/inbox').SentEvent[]): Promise<Answer[]>;
    declare function alarm(events: readonly import('leasehold/outbox').MissingEvent[]): void;`,
  'docs/reference.md': `${POOL} ${LEASEHOLD} ${HANDLERS}
    declare const transaction: {
      query(text: string, values: (string | number | null)[]): Promise<{ rows: Record<string, unknown>[] }>;
    };
    declare const sendReceipt: import('leasehold').Kind<{ orderId: number }>;
    declare const indexPage: import('leasehold').Kind<{ url: string }>;
    declare const search: {
      addPages(pages: { url: string }[], options: { signal: AbortSignal }): Promise<('added' | 'empty')[]>;
    };
    declare const server: import('node:http').Server;
    ${LOGGER('logger')}`,
  'docs/sqs.md': `
    declare function llm(body: { id: number }, options: { signal: AbortSignal; idempotencyKey?: string }): Promise<string>;
    declare const cache: { delete(id: number): Promise<boolean> };
    declare function addSummary(tx: import('pg').ClientBase): Promise<string>;
    declare function handle(message: { body: { id: number } }): Promise<void>;
    ${LOGGER('pino')}`,
  'docs/transitions.md': `${POOL} ${LEASEHOLD} ${HANDLERS}
    declare const id: string;
    declare const text: string;
    declare const prompt: string;
    declare function llm(prompt: string, options: { signal: AbortSignal; idempotencyKey: string }): Promise<string>;
    declare const sqs: { send(ids: readonly string[]): Promise<void> };`,
  'docs/transports.md': POOL,
  'docs/workers.md': LEASEHOLD,
  'docs/workflows.md': `
    declare const stock: Record<'reserve' | 'release', (order: number) => Promise<void>>;
    declare const bank: { charge(cents: number, options: object): Promise<string>; refund(order: number): Promise<void> };
    declare const mail: { send(order: number, parcel: string): Promise<void> };
    declare function fetchRate(): Promise<number>;`,
  'docs/write-guard.md': `${POOL}
    declare const id: string;
    declare function evaluate(id: string, seen: readonly string[]): Promise<{ isViolation: boolean }>;
    declare const checkEntity: import('leasehold').Kind<{ id: string }>;
    declare function evaluateAndWrite(job: import('leasehold').Job<{ id: string }>): Promise<void>;`,
}

/** What a page imports from files that it does not print. Prisma is not installed here: test/adapters/prisma.test.ts runs the real one. */
const FILES_OF_THE_READER: Record<string, Record<string, string>> = {
  'docs/testing.md': {
    'receipts.ts': read('examples/testing/receipts.ts'),
    'checkout.ts': read('examples/workflow/checkout.ts'),
    'services.ts': read('examples/workflow/services.ts'),
  },
  'docs/your-transaction.md': {
    'generated/client.ts': `
      interface Transaction {
        $queryRawUnsafe<Rows = unknown>(text: string, ...values: unknown[]): Promise<Rows>
        readonly orders: { update(change: { where: { id: number }; data: { paid: boolean } }): Promise<object> }
      }
      export declare class PrismaClient {
        constructor(options: { adapter: import('@prisma/adapter-pg').PrismaPg })
        $transaction<Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result>
        $disconnect(): Promise<void>
      }`,
    'generated/adapter.d.ts': `
      declare module '@prisma/adapter-pg' {
        export class PrismaPg {
          constructor(options: { connectionString: string })
        }
      }`,
  },
}

interface Block {
  /** Undefined: it is a part of the page, and no file. */
  readonly file: string | undefined
  readonly code: string
  /** The lines of the page before its first line. */
  readonly above: number
}

const pages = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
]

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function blocksOf(text: string): Block[] {
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)]
  assert.equal(blocks.length, text.split('```ts').length - 1, 'a block is not found')
  return blocks.map(({ index, 1: code = '' }) => ({
    file: /^\/\/ ([\w.-]+\.ts)\b/.exec(code)?.[1],
    code,
    above: newlines(text.slice(0, index)) + 1,
  }))
}

function newlines(text: string): number {
  return text.split('\n').length - 1
}

const IMPORT = /^import (type )?([^']+) from ('[^']+').*$/gm

/** One statement for each name and module, because several blocks of a page may import the same. */
function importsOf(blocks: Block[]): string[] {
  const statements = new Set<string>()
  for (const [, type = '', clause, from] of blocks.flatMap(({ code }) => [...code.matchAll(IMPORT)])) {
    const [, whole, list = ''] = /^(\w+)?[,\s]*(?:\{([\s\S]*)\})?$/.exec(clause!) ?? assert.fail(`import ${clause}`)
    if (whole !== undefined) statements.add(`import ${type}${whole} from ${from}`)
    for (const name of list.split(',').map((each) => each.trim())) {
      if (name !== '') statements.add(`import ${type}{ ${name} } from ${from}`)
    }
  }
  return [...statements]
}

/** The blocks that are no files, each in a scope within that of the block before. */
function joined(blocks: Block[], ofTheReader: string): string {
  const parts = blocks.filter(({ file }) => file === undefined)
  let text = [...importsOf(blocks), ofTheReader, 'export {}'].join('; ').replaceAll('\n', ' ')
  for (const { code, above } of parts) {
    const body = code.replace(IMPORT, (statement) => '\n'.repeat(newlines(statement)))
    text += `${'\n'.repeat(above - newlines(text) - 1)}{\n${body}`
  }
  return `${text}${'}'.repeat(parts.length)}\n`
}

/** Where the package's names are in src: leasehold/outbox is src/outbox/index.ts. */
function ownModules(): Record<string, string[]> {
  const { exports } = JSON.parse(read('package.json'))
  return Object.fromEntries(
    Object.entries<{ types: string }>(exports).map(([name, { types }]) => {
      const source = types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts')
      return [name.replace('.', 'leasehold'), [join(ROOT, source)]]
    }),
  )
}

test('a page uses every name that its reader is assumed to have', () => {
  for (const [page, names] of Object.entries(OF_THE_READER)) {
    const code = blocksOf(read(page)).map((block) => (block.file === undefined ? block.code : ''))
    for (const [, name] of names.matchAll(/declare (?:const|function) (\w+)/g)) {
      assert.match(code.join('\n'), new RegExp(`\\b${name}\\b`), `${name} in ${page}`)
    }
  }
})

test('every TypeScript sample of the README and of docs compiles', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'leasehold samples '))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), text)
  }

  let samples = 0
  for (const page of pages) {
    const blocks = blocksOf(read(page))
    samples += blocks.length
    for (const { file, code, above } of blocks) {
      if (file !== undefined) write(`${page}/${file}`, '\n'.repeat(above) + code)
    }
    for (const [name, code] of Object.entries(FILES_OF_THE_READER[page] ?? {})) write(`${page}/${name}`, code)
    if (blocks.some(({ file }) => file === undefined))
      write(`${page}/page.ts`, joined(blocks, OF_THE_READER[page] ?? ''))
  }
  assert.ok(samples > 80, String(samples))

  const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false, paths: ownModules() }
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['.'], exclude: ['node_modules'] }
  write('tsconfig.json', JSON.stringify(config))
  write('package.json', '{ "type": "module" }')
  symlinkSync(join(ROOT, 'node_modules'), join(home, 'node_modules'), 'junction')
  const { status, stdout } = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), { cwd: home, encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})
