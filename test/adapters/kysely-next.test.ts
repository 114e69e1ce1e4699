// The tests of Kysely with 0.29, which needs Node 22. It is fetched apart, since `npm ci` is for Node 20, too, and stands for the
// package `kysely` in a process of its own.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { fetchedPackage } from '../../tools/fetched-package.ts'

const VERSION = '0.29.9'
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const isTooOld = Number.parseInt(process.versions.node, 10) < 22
const skip = isTooOld ? 'Kysely 0.29 needs Node 22: npm run matrix -- --pg 18 --node 22 test/adapters/kysely' : false

test(`the tests of Kysely pass with ${VERSION}`, { skip }, async () => {
  const folder = await fetchedPackage('kysely', VERSION, 'kysely')
  const kysely = pathToFileURL(join(folder, 'dist', 'index.js')).href
  const redirect = `export const resolve = (name, context, next) =>
    name === 'kysely' ? { url: ${JSON.stringify(kysely)}, shortCircuit: true } : next(name, context)`
  const hook = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(redirect))})`
  const flags = ['--import', 'tsx', '--import', dataUrl(hook), '--test', '--test-reporter=tap']
  const { status, stdout } = spawnSync(process.execPath, [...flags, 'test/adapters/kysely.test.ts'], {
    cwd: ROOT,
    env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    encoding: 'utf8',
  })
  assert.equal(status, 0, stdout)
  assert.match(stdout, /^# fail 0$/m)
})

function dataUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`
}
