import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Child } from '../demo/child.ts'

test('a message to a process killed this moment is lost, and no reason to end the demo', async () => {
  let lost: Error | undefined
  let child: Child<number, { type: string }> | undefined
  const pid = await new Promise<number>((resolve) => {
    child = new Child('worker 1', {
      program: new URL('./support/says-its-pid.ts', import.meta.url),
      args: [],
      env: {},
      hear: resolve,
      onLost: (error) => {
        lost = error
      },
    })
  })
  const ended = child!.end('SIGKILL')
  // The event loop stands still meanwhile, so that nobody has heard of the death when the message is sent.
  while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) {}
  child!.send({ type: 'printed' })
  await ended
  assert.equal(lost, undefined)
})
