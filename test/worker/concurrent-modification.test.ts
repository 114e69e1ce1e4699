// A write guard found that another writer came first: that is no failure of the job.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handle, kind } from '../../src/index.ts'
import { ConcurrentModificationError } from '../../src/tables/index.ts'
import { collect, next, scene } from '../support/worker.ts'

const open = kind<number>('open_incident', { maxAttempts: 3, backoff: { first: 0 } })

test('the job is cancelled with its reason, counted, and logged as a warning', async (t) => {
  const { lh, log, worker } = await scene(t)
  const busy = worker([
    handle(open, () => {
      throw new ConcurrentModificationError('open incident', ['1'], ['1', '2'])
    }),
  ])
  const [yielded, cancelled] = [next(busy, 'concurrent_modification'), next(busy, 'cancelled')]
  const { jobId } = await lh.enqueue(open, 7)
  assert.equal((await yielded).error.site, 'open incident')
  assert.equal((await cancelled).jobId, jobId)
  const { status, reason } = (await lh.get(jobId))!
  assert.deepEqual([status, reason], ['cancelled', 'concurrent_modification'])
  assert.deepEqual([busy.tally.cancelled, busy.tally.concurrentModifications, busy.tally.deadLetters], [1, 1, 0])
  const warned = log.filter(({ concurrentModification }) => concurrentModification)
  assert.deepEqual(
    warned.map(({ level, jobId: of, attempt }) => [level, of, attempt]),
    [['warn', jobId, 1]],
  )
})

test('by option it is retried, and spends no attempt', async (t) => {
  const { lh, worker } = await scene(t)
  let runs = 0
  const busy = worker(
    [
      handle(
        open,
        ({ attempt }) => {
          if (++runs <= 4) throw new ConcurrentModificationError('open incident', [], ['1'])
          return attempt
        },
        { onConcurrentModification: 'retry' },
      ),
    ],
    { poll: 20 },
  )
  const yielded = collect(busy, 'concurrent_modification')
  const completed = next(busy, 'completed')
  const { jobId } = await lh.enqueue(open, 7)
  assert.equal((await completed).attempt, 1)
  assert.deepEqual([yielded.length, busy.tally.snoozed, (await lh.get(jobId))!.result], [4, 4, 1])
  assert.throws(() => handle(open, () => {}, { onConcurrentModification: 'ignore' as never }), {
    code: 'INVALID_OPTION',
  })
})
