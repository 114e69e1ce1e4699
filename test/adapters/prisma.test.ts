// Prisma is installed in a folder of its own, and its client is generated there, without a download: its schema engine is not
// needed for that, and any program stands in for it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { fromPrisma, type PrismaTransaction } from '../../src/adapters/prisma.ts'
import { kind } from '../../src/index.ts'
import { codeOf, scene } from '../support/worker.ts'
import { conforms, NO_HANDLES, type Scope, type Stack } from './conformance.ts'
import { runsFromPage } from './page.ts'

const HOME = fileURLToPath(new URL('../../.cache/prisma/', import.meta.url))
const PASS = /pass the tx that prisma\.\$transaction\(async \(tx\) => …\) passes/

type Transaction = PrismaTransaction & { $executeRawUnsafe(text: string): Promise<number> }

/** Of a client that is generated here, so that the compiler does not know it. */
interface Client {
  $transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  $disconnect(): Promise<void>
}

interface Generated {
  readonly PrismaClient: new (options: { adapter: unknown }) => Client
}

const PRISMA_SCHEMA_ENGINE_BINARY = process.execPath
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: HOME, env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY }, stdio: 'pipe' })
cpSync(new URL('prisma', import.meta.url), HOME, { recursive: true })
run('npm', 'install', '--ignore-scripts', '--no-package-lock', '--no-audit', '--no-fund', '--prefer-offline')
run('npx', '--no-install', 'prisma', 'generate', '--schema', 'schema.prisma')

async function connect(url: string): Promise<Client> {
  const at = (path: string) => pathToFileURL(`${HOME}${path}`).href
  const { PrismaClient } = (await import(at('generated/client.ts'))) as Generated
  const { PrismaPg } = await import(at('node_modules/@prisma/adapter-pg/dist/index.mjs'))
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: url }, { onPoolError: () => {} }) })
}

function scopeOf(tx: Transaction): Scope {
  return { tx: fromPrisma(tx), execute: (text) => tx.$executeRawUnsafe(text) }
}

async function open(url: string): Promise<Stack> {
  const prisma = await connect(url)
  return {
    transaction: (work) => prisma.$transaction((tx) => work(scopeOf(tx))),
    refused: () => [
      ['the client', () => fromPrisma(prisma as never), PASS],
      ...NO_HANDLES.map((each) => [String(each), () => fromPrisma(each), PASS] as const),
    ],
    close: () => prisma.$disconnect(),
  }
}

conforms('Prisma', open)

test('Prisma: a transaction that has ended is refused', async (t) => {
  const { db, lh, undo } = await scene(t)
  const prisma = await connect(db.url)
  undo.after(() => prisma.$disconnect())
  const tx = await prisma.$transaction(async (own) => fromPrisma(own))
  assert.equal(await codeOf(() => lh.enqueue(kind<number>('task'), 1, { tx })), 'INVALID_OPTION')
})

runsFromPage('prisma.ts', HOME)
