// Which of many idle workers answer a wake-up. Random numbers come from a seed, and no time passes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Eagerness } from '../../src/worker/eagerness.ts'

const POLL_MS = 1_000

function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

function fleet(workers: number): Eagerness[] {
  const random = seeded(workers)
  return Array.from({ length: workers }, () => {
    const one = new Eagerness(POLL_MS, random)
    one.fleet = workers
    return one
  })
}

/** One job: which workers answer at once, the first of them in vain or not. Returns how many did. */
function wake(workers: readonly Eagerness[], isFull: (worker: Eagerness) => boolean = () => false): number {
  const answering = workers.filter((worker) => worker.answerAfterMs() === 0 && !isFull(worker))
  answering[0]?.found()
  for (const other of answering.slice(1)) other.inVain()
  return answering.length
}

test('of many idle workers about one answers a wake-up at once, and there is nearly always one', () => {
  for (const many of [2, 8, 32, 200]) {
    const workers = fleet(many)
    wake(workers)
    let [answers, silences] = [0, 0]
    for (let job = 0; job < 500; job++) {
      const now = wake(workers)
      answers += now
      if (now === 0) silences++
    }
    assert.ok(answers / 500 <= 2, `${answers / 500} of ${many}`)
    assert.equal(silences, 0, `of ${many}`)
  }
})

test('when the eager workers are full, a worker that finds the job by polling becomes eager', () => {
  const workers = fleet(32)
  for (let job = 0; job < 50; job++) wake(workers)
  const full = workers.find((worker) => worker.answerAfterMs() === 0 && worker.answerAfterMs() === 0)!
  const other = workers.find((worker) => worker !== full)!
  other.found()
  for (let job = 0; job < 50; job++) assert.ok(wake(workers, (worker) => worker === full) > 0)
})

test('a worker alone answers every wake-up at once, however often in vain', () => {
  const [one] = fleet(1)
  for (let n = 0; n < 20; n++) {
    one!.inVain()
    assert.equal(one!.answerAfterMs(), 0)
  }
})

test('of few workers all answer within a fraction of the poll, at first', () => {
  for (const worker of fleet(4)) {
    worker.inVain()
    for (let n = 0; n < 100; n++) assert.ok(worker.answerAfterMs() <= 120)
  }
})
