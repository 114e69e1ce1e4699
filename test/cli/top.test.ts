import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { run } from '../../src/cli/main.ts'
import { kind } from '../../src/index.ts'
import { scene } from '../support/worker.ts'

/** A terminal that presses q once something was drawn. Returns all that was written to it. */
async function drawnOn(size: { columns: number; rows: number }, url: string, ...argv: string[]): Promise<string> {
  const modes: boolean[] = []
  const stdin = Object.assign(new EventEmitter(), {
    isTTY: true,
    setRawMode: (mode: boolean) => modes.push(mode),
    resume: () => {},
    pause: () => {},
  })
  let written = ''
  const stdout = {
    ...size,
    isTTY: true,
    write: (text: string) => {
      written += text
      if (text.startsWith('\u001b[H')) stdin.emit('data', Buffer.from('q'))
    },
  }
  const stderr = { write: (text: string) => assert.fail(text) }
  const env = { LEASEHOLD_URL: url, NO_COLOR: '1' }
  const io = { stdout, stderr, stdin: stdin as unknown as NodeJS.ReadStream, env, signal: new AbortController().signal }
  assert.equal(await run(['top', ...argv], io), 0)
  assert.deepEqual(modes, [true, false])
  return written
}

test('top keeps to the rows of its terminal, starts with trouble and the busiest queues, and q ends it', async (t) => {
  const { db, lh } = await scene(t)
  for (let n = 0; n < 40; n++) await lh.enqueue(kind(`queue-${n}`), {})
  for (let n = 0; n < 3; n++) await lh.enqueue(kind('busy'), {})
  await lh.pause({ queue: 'queue-7' })
  const written = await drawnOn({ columns: 60, rows: 24 }, db.url)
  const [before, rest] = written.split('\u001b[H')
  const [picture, after] = rest!.split('\u001b[J')
  assert.ok(before!.endsWith('\u001b[?7l')) // Lines do not wrap,
  assert.ok(after!.startsWith('\u001b[?7h')) // and do again afterwards.
  const lines = picture!.replaceAll('\u001b[K', '').split('\n')
  assert.ok(lines.length <= 24, `${lines.length} lines`)
  assert.match(lines[0]!, /^leasehold {2}/)
  assert.deepEqual(lines.slice(1, 3), ['', 'Trouble'])
  assert.match(lines[3]!, /queue-7 is paused/)
  assert.match(lines.find((line) => line.startsWith('busy'))!, /^busy +3/)
  assert.match(picture!, /^busy[^\n]*\n[^\n]*queue-/m)
  assert.match(picture!, /… and \d+ more: leasehold queues/)
  assert.match(picture!, /^Workers/m)
})
