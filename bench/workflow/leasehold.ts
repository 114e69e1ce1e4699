import { Leasehold } from '../../src/index.ts'
import { VERSION } from '../../src/version.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'
import { atATime, type Engine } from './contender.ts'

const bench = workflow<number, number>('bench', {}, async (run, n) => {
  const a = await run.step('a', () => n + 1)
  const b = await run.step('b', () => a + 1)
  return run.step('c', () => b + 1)
})

export const leasehold: Engine = {
  version: VERSION,
  why: 'Its defaults. Each run is started by a call of its own; the worker is in the same process.',
  open: async (url, most) => {
    const lh = new Leasehold({ connectionString: url, log: () => {} })
    await lh.migrate()
    const worker = lh.worker([handleRuns(bench)], { concurrency: most, signals: [] })
    const ended = new Map<string, () => void>()
    worker.on('completed', ({ jobId }) => ended.get(jobId)?.())
    const running = worker.run()
    let started = 0
    return {
      run: (runs) =>
        atATime(runs, most, async () => {
          const n = started++
          const { jobId } = await start(lh, bench, n, { runId: `run ${n}` })
          await new Promise<void>((resolve) => ended.set(jobId, resolve))
          ended.delete(jobId)
        }),
      close: async () => {
        await worker.stop()
        await running
        await lh.close()
      },
    }
  },
}
