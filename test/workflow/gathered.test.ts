// Questions that share statements.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Gathered } from '../../src/workflow/gathered.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { gate } from '../support/gate.ts'
import { scene, statements } from '../support/worker.ts'

/** The batches in which these items are sent, if all of them are asked at a time. */
async function batches(most: ConstructorParameters<typeof Gathered<string, string>>[0], items: readonly string[]) {
  const sent: (readonly string[])[] = []
  const gathered = new Gathered<string, string>(most, async (batch) => {
    sent.push(batch)
    return batch.map((item) => `${item}!`)
  })
  const answers = await Promise.all(items.map((item) => gathered.ask(item)))
  assert.deepEqual(
    answers,
    items.map((item) => `${item}!`),
  )
  return sent
}

const sizeOf = (item: string) => item.length

test('a statement takes so many items at most', async () => {
  assert.deepEqual(await batches({ items: 2 }, ['a', 'b', 'c']), [['a', 'b'], ['c']])
})

test('a statement takes so many bytes at most, and a larger item goes alone', async () => {
  const most = { items: 3, bytes: 4, sizeOf }
  assert.deepEqual(await batches(most, ['aa', 'bb', 'c', 'ddddd', 'e', 'f', 'g', 'h']), [
    ['aa', 'bb'],
    ['c'],
    ['ddddd'],
    ['e', 'f', 'g'],
    ['h'],
  ])
})

test('after a statement that failed, the next ones are sent', async () => {
  let failures = 1
  const gathered = new Gathered<number, number>({ items: 1 }, async (batch) => {
    if (failures-- > 0) throw new Error('away')
    return batch
  })
  const asked = [gathered.ask(1), gathered.ask(2)]
  const settled = await Promise.allSettled(asked)
  assert.deepEqual(
    settled.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  )
})

test('twelve results of 1 MB that end at a time are recorded by several statements', async (t) => {
  const { lh, undo } = await scene(t)
  const all = gate()
  let begun = 0
  const flow = workflow<null, number>('flow', {}, async (run) => {
    const large = (n: number) =>
      run.step(['large', n], async () => {
        if (++begun === 12) all.open()
        await all.opened
        return 'x'.repeat(1024 * 1024)
      })
    const results = await Promise.all(Array.from({ length: 12 }, (_, n) => large(n)))
    return results.length
  })
  const { jobId } = await start(lh, flow, null)
  const sent = statements(undo)
  await lh.drain([handleRuns(flow)])
  assert.equal((await lh.get(jobId))!.result, 12)
  assert.ok(sent.filter((name) => name === 'step.record').length >= 4, 'each with up to 4 MB')
})
