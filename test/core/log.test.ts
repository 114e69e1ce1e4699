import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Log, logOf } from '../../src/core/log.ts'
import { Leasehold, SchemaError } from '../../src/index.ts'

function stderrOf(t: TestContext, write: () => void): string {
  const written: string[] = []
  const mocked = t.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0)
  write()
  mocked.mock.restore()
  return written.join('')
}

test('a log that is not a function is refused, with what to write instead', () => {
  const pino = { info() {}, warn() {}, error() {} }
  for (const log of [console, pino, 'stderr', null, true] as unknown as Log[]) {
    assert.throws(() => logOf('x.log', log), {
      code: 'INVALID_OPTION',
      option: 'x.log',
      message: /it must be a function; .* \(\{ level, message, \.\.\.rest \}\) => logger\[level\]\(rest, message\)/,
    })
    assert.throws(() => new Leasehold({ connectionString: 'postgres://localhost/x', log }), { option: 'Leasehold.log' })
  }
})

test('a log that throws or rejects does not disturb its caller', async () => {
  const fails = () => {
    throw new Error('on purpose')
  }
  logOf('x.log', fails)({ level: 'warn', message: 'm' })
  logOf('x.log', async () => fails())({ level: 'warn', message: 'm' })
})

test('the default log prints the safe part of an error once, and nothing of a handler’s', (t) => {
  const log = logOf('x.log', undefined)
  const missing = new SchemaError('Schema "leasehold" is missing here. Call migrate() first.')
  const cases: [string, unknown, string][] = [
    ['it threw', missing, ': Schema "leasehold" is missing here. Call migrate() first (SchemaError SCHEMA)'],
    ['trouble: Schema "leasehold" is missing here. Call migrate() first', missing, ' (SchemaError SCHEMA)'],
    ['it threw', new TypeError('jane@example.com'), ' (TypeError)'],
    ['it threw', undefined, ''],
  ]
  for (const [message, error, end] of cases) {
    const entry = { level: 'warn' as const, message, ...(error === undefined ? {} : { error }) }
    assert.equal(
      stderrOf(t, () => log(entry)),
      `leasehold warn: ${message}${end}\n`,
    )
  }
  assert.equal(
    stderrOf(t, () => log({ level: 'info', message: 'all is well' })),
    'leasehold info: all is well\n',
  )
  assert.equal(
    stderrOf(t, () => log({ level: 'debug', message: 'all is well' })),
    '',
  )
})
