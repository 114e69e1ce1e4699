import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Child } from '../demo/child.ts'

test('a message to a process that was just killed is lost without ending the demo', async () => {
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
  // The event loop is blocked meanwhile, so that the exit is not known here when the message is sent.
  while (!/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) {}
  child!.send({ type: 'printed' })
  await ended
  assert.equal(lost, undefined)
})
