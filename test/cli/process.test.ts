// The command as a process of its own, as npx starts it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { kind } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { scene } from '../support/worker.ts'

const ROOT = new URL('../..', import.meta.url)

function start(url: string, argv: readonly string[]) {
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli/main.ts', ...argv], {
    cwd: ROOT,
    env: { ...process.env, LEASEHOLD_URL: url, NO_COLOR: '1' },
  })
  let out = ''
  let err = ''
  child.stdout.on('data', (text) => {
    out += text
  })
  child.stderr.on('data', (text) => {
    err += text
  })
  const ended = new Promise<{ code: number | null; out: string; err: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, out, err })),
  )
  return { child, ended }
}

/** A module of the user's, which finds this package's sources. */
function userModule(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-cli-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'worker.ts')
  writeFileSync(
    path,
    `import { handle, kind } from ${JSON.stringify(new URL('src/index.ts', ROOT).href)}
import { handleRuns, workflow } from ${JSON.stringify(new URL('src/workflow/index.ts', ROOT).href)}
export const greet = kind('greet', { queue: 'greetings' })
export const ship = workflow('ship', {}, async () => 'shipped')
export default [handle(greet, () => 'hello'), handleRuns(ship)]\n`,
  )
  return path
}

test('configure, enqueue, work and show as processes, and exit codes', async (t) => {
  const { db, lh } = await scene(t)
  const path = userModule(t)
  const run = (...argv: string[]) => start(db.url, argv).ended
  const configured = await run('configure', path)
  assert.deepEqual([configured.code, configured.err], [0, ''])
  assert.match(configured.out, /: greet, ship@1\.\n$/)
  const stored = await run('enqueue', 'greet', '{"to": "ada"}', '--json')
  assert.equal(stored.code, 0, stored.err)
  const { jobId } = JSON.parse(stored.out)
  const drained = await run('work', path, '--drain')
  assert.equal(drained.code, 0, drained.err)
  const shown = await run('show', jobId)
  assert.equal(shown.code, 0)
  assert.match(shown.out, /^queue +greetings$/m)
  assert.match(shown.out, /^state +completed$/m)
  assert.match(shown.out, /^result +"hello"$/m)
  const wrong = await run('sho', jobId)
  assert.deepEqual([wrong.code, wrong.err], [2, 'leasehold: there is no command "sho"; did you mean show?\n'])
  // Without a terminal, top draws once and ends.
  assert.equal((await run('top')).code, 0)

  const worker = start(db.url, ['work', path, '--label', 'by-command'])
  const greet = kind('greet', { queue: 'greetings' })
  const next = await lh.enqueue(greet, {})
  assert.equal((await lh.waitFor(next.jobId, { timeout: '60s' })).status, 'completed')
  worker.child.kill('SIGTERM')
  assert.equal((await worker.ended).code, 0)
  await until('the worker has stopped', async () => (await lh.workers({ state: 'stopped' })).length > 0)
})
