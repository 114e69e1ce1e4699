import { Absurd } from 'absurd-sdk'
import pg from 'pg'
import { pinnedVersion } from '../contenders/contender.ts'
import { atATime, type Engine } from './contender.ts'

/**
 * Tried: pools of 10, 20 and 40; polls every 5, 10, 50 and 250 ms; claims of 10 and of all that are free. Two rounds of the same settings
 * lay further apart than most of these.
 */
const POOL = 20
const POLL_SECONDS = 0.01

export const absurd: Engine = {
  version: pinnedVersion('absurd-sdk'),
  why:
    'A queue without partitions. The worker executes as many runs as are under way, claims as many as are free, and looks again ' +
    `after ${POLL_SECONDS * 1_000} ms or the end of a run. A hook tells when a run has ended, so nobody polls for results. A pool of ${POOL} connections.`,
  open: async (url, most) => {
    const pool = new pg.Pool({ connectionString: url, max: POOL })
    const ended = new Map<string, () => void>()
    const client = new Absurd({
      db: pool,
      queueName: 'bench',
      hooks: {
        wrapTaskExecution: async (task, execute) => {
          const result = await execute()
          ended.get(task.taskID)?.()
          return result
        },
      },
    })
    await client.createQueue()
    client.registerTask<number>({ name: 'bench' }, async (n, task) => {
      const a = await task.step('a', async () => n + 1)
      const b = await task.step('b', async () => a + 1)
      return task.step('c', async () => b + 1)
    })
    await client.startWorker({
      concurrency: most,
      pollInterval: POLL_SECONDS,
      onError: (error) => {
        throw error
      },
    })
    let started = 0
    return {
      run: (runs) =>
        atATime(runs, most, async () => {
          const { taskID } = await client.spawn('bench', started++)
          await new Promise<void>((resolve) => ended.set(taskID, resolve))
          ended.delete(taskID)
        }),
      close: async () => {
        await client.close()
        await pool.end()
      },
    }
  },
}
