// Which lines of the ring a claim asks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClaimedJob } from '../../src/jobs/job.ts'
import { ScanCursors } from '../../src/jobs/scan-cursors.ts'
import type { StoredTime } from '../../src/jobs/stored-time.ts'

const NEW_YEAR = '00035d15590f4000' as StoredTime
const aJob = (queue: string, priority = 5) =>
  ({ queue, priority, availableAt: NEW_YEAR, jobId: '7', line: 0 }) as ClaimedJob

test('a look asks no more lines than fill its claim, and the next one goes on with the others', () => {
  const now = () => 0
  const cursors = new ScanCursors(['q'], now, now)
  const lines = Array.from({ length: 40 }, (_, n) => n + 1)
  cursors.setLines(lines.map((line) => ({ queue: 'q', line })))
  const ofLine = (line: number) => Array.from({ length: 4 }, () => ({ ...aJob('q'), line }))
  const first = cursors.next(160)
  assert.equal(first.places.length, 40, 'what is not known is looked at')
  const [jobs, from] = [lines.flatMap(ofLine), first.places[0]!.line]
  cursors.learn(first, { jobs, limit: 160, walkMs: 0 })
  const seen = new Set<number>()
  for (let look = 0; look < 40; look++) {
    cursors.lookFromStart()
    const part = cursors.next(4)
    assert.equal(part.fromStart && part.places.length, 4)
    const { line } = part.places[0]!
    seen.add(line)
    const { nothingElse } = cursors.learn(part, { jobs: ofLine(line), limit: 4, walkMs: 0 })
    assert.equal(nothingElse, false)
  }
  assert.equal(from, 1)
  assert.equal(seen.size, 40)
})

test('lines that no look has reached are asked by turns between looks', () => {
  let now = 0
  const cursors = new ScanCursors(
    ['q'],
    () => now,
    () => 0,
  )
  const lines = Array.from({ length: 1_000 }, (_, n) => n + 1)
  cursors.setLines(lines.map((line) => ({ queue: 'q', line })))
  const seen = new Set<number>()
  const look = cursors.next(8)
  assert.ok(look.fromStart && look.places.length <= 64)
  const first = look.places[0]!.line
  // Looks are expensive, so the next one is far away.
  cursors.learn(look, { jobs: Array.from({ length: 8 }, () => ({ ...aJob('q'), line: first })), limit: 8, walkMs: 50 })
  for (let claim = 0; claim < 300; claim++) {
    const asked = cursors.next(8)
    if (asked.fromStart) now += 1
    for (const { line } of asked.places) seen.add(line)
    const { more } = cursors.learn(asked, { jobs: [], limit: 8, walkMs: 50, at: NEW_YEAR })
    if (seen.size === lines.length) return
    assert.ok(more || asked.fromStart, 'there are lines that were never asked')
  }
  assert.fail(`${seen.size} lines were asked`)
})
