import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { debianFiles, fakeTime, findOrFetch } from '../../tools/debian.ts'
import { needs, needsFakeTime } from '../support/optional-program.ts'

const withFakeTime = await needsFakeTime()

const HOUR = 3_600_000

function setVariable(t: TestContext, name: string, value: string): void {
  const before = process.env[name]
  t.after(() => {
    if (before === undefined) delete process.env[name]
    else process.env[name] = before
  })
  process.env[name] = value
}

test('a process started with another time sees it, and its timers run at normal speed', withFakeTime, async () => {
  const script = `
    import { scheduler } from 'node:timers/promises'
    const before = performance.now()
    await scheduler.wait(100)
    console.log(JSON.stringify({ now: Date.now(), waited: performance.now() - before }))`
  const env = { ...process.env, ...(await fakeTime('+1h')) }
  const from = Date.now()
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { env })
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  assert.equal(errors, '')
  const { now, waited } = JSON.parse(output)
  assert.ok(now >= from + HOUR && now <= Date.now() + HOUR, `${now} is not an hour after ${from}`)
  assert.ok(waited >= 99 && waited <= Date.now() - from, `it waited ${waited} ms`)
})

const system = {
  name: 'the shell',
  variable: 'LEASEHOLD_TEST_SHELL',
  file: 'sh',
  folders: () => ['/nowhere', '/bin'],
  packages: ['no-such-package'],
}

test('a file that the system has, or a variable names, is not fetched', async (t) => {
  assert.deepEqual(await findOrFetch(system), { path: '/bin/sh', root: undefined })
  setVariable(t, 'LEASEHOLD_TEST_SHELL', process.execPath)
  assert.deepEqual(await findOrFetch(system), { path: process.execPath, root: undefined })
})

test('a variable that names a missing file is an error', async (t) => {
  setVariable(t, 'LEASEHOLD_TEST_SHELL', '/nowhere/sh')
  await assert.rejects(findOrFetch(system), /LEASEHOLD_TEST_SHELL names \/nowhere\/sh, which does not exist/)
})

test('without apt, the error names the package to install and the variable to set', async (t) => {
  setVariable(t, 'PATH', '/nowhere')
  await assert.rejects(debianFiles(['pgbouncer']), /apt-get and dpkg-deb not found/)
  const advice =
    /Install the shell, or set LEASEHOLD_TEST_SHELL to the path of its sh\.\n.*apt-get and dpkg-deb not found/
  await assert.rejects(findOrFetch({ ...system, folders: () => [] }), advice)
})

test('a test whose program is missing is skipped with advice, and never in CI', async () => {
  const missing = () => findOrFetch({ ...system, folders: () => [] })
  const { skip } = await needs(missing, {})
  assert.match(
    String(skip),
    /^the shell is not installed.*Install the shell, or set LEASEHOLD_TEST_SHELL to the path of its sh\.$/,
  )
  for (const env of [{ CI: 'true' }, { LEASEHOLD_NEVER_SKIP: '1' }])
    assert.equal((await needs(missing, env)).skip, false)
  assert.equal((await needs(() => findOrFetch(system), {})).skip, false)
  await assert.rejects(
    needs(() => Promise.reject(new Error('another error')), {}),
    /another error/,
  )
})
