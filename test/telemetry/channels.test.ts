// Events on node:diagnostics_channel.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { test } from 'node:test'
import { Fatal } from '../../src/index.ts'
import { Events } from '../../src/worker/events.ts'
import { doing, next } from '../support/worker.ts'

test('a channel has what the event has, and the label of the worker', async (t) => {
  const seen: [string, Record<string, unknown>][] = []
  const note = (message: unknown, name: string | symbol) => void seen.push([String(name), message as never])
  const names = ['enqueued', 'started', 'completed', 'dead_letter'].map((name) => `leasehold:job.${name}`)
  for (const name of names) subscribe(name, note)
  t.after(() => {
    for (const name of names) unsubscribe(name, note)
  })
  const setting = await doing(
    t,
    (job) => {
      if (job.input === 1) throw new Fatal('no')
    },
    { worker: { label: 'w' } },
  )
  const completed = next(setting.busy, 'completed')
  const first = await setting.add()
  await completed
  const buried = next(setting.busy, 'dead_letter')
  const second = await setting.add()
  await buried
  const of = (name: string) =>
    seen.filter(([channel]) => channel === `leasehold:job.${name}`).map(([, message]) => message)
  assert.deepEqual(of('enqueued'), [
    { kind: 'task', queue: 'task', jobs: [{ jobId: first, outcome: 'created' }] },
    { kind: 'task', queue: 'task', jobs: [{ jobId: second, outcome: 'created' }] },
  ])
  assert.deepEqual(
    of('started').map(({ jobId, worker }) => [jobId, worker]),
    [
      [first, 'w'],
      [second, 'w'],
    ],
  )
  assert.deepEqual(
    of('completed').map(({ jobId, attempt, worker }) => [jobId, attempt, worker]),
    [[first, 1, 'w']],
  )
  assert.deepEqual(
    of('dead_letter').map(({ jobId, reason }) => [jobId, reason]),
    [[second, 'fatal']],
  )
})

test('without a subscriber no event of a job is built', () => {
  const events = new Events(() => {}, 'w')
  assert.equal(events.hasListeners('completed'), false)
  const note = () => {}
  subscribe('leasehold:job.completed', note)
  assert.equal(events.hasListeners('completed'), true)
  unsubscribe('leasehold:job.completed', note)
  assert.equal(events.hasListeners('completed'), false)
})
