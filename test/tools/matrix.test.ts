import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

function matrix(...args: string[]) {
  const options = { cwd: ROOT, encoding: 'utf8' } as const
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', 'tsx', 'tools/matrix.ts', ...args],
    options,
  )
  return { status, lines: stdout.trimEnd().split('\n'), stderr }
}

test('the matrix has every PostgreSQL and every Node, and can be narrowed to pairs', () => {
  const { lines } = matrix('--list')
  assert.equal(lines.length, 7)
  for (const pg of [14, 15, 16, 17, 18]) assert.ok(lines.includes(`PostgreSQL ${pg}, Node 20`))
  for (const node of [20, 22, 24]) assert.ok(lines.includes(`PostgreSQL 18, Node ${node}`))
  assert.deepEqual(matrix('--list', '--pg', '16,17', '--node', '24').lines, [
    'PostgreSQL 16, Node 24',
    'PostgreSQL 17, Node 24',
  ])
})

test('a version that the matrix does not know is refused, with those that it knows', () => {
  const { status, stderr } = matrix('--pg', '13')
  assert.equal(status, 2)
  assert.match(stderr, /There is no --pg 13\.\n.*--pg +of 14, 15, 16, 17, 18/s)
})
