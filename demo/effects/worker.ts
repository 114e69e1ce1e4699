// A worker process of this demo: `node --import tsx demo/effects/worker.ts "worker 2"`, started by crew.ts.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { RECOVERY_EVERY_MS, summaries } from '../summary.ts'
import { RACE_POOL, race } from './incidents.ts'
import type { FromWorker, ToWorker, Way } from './messages.ts'
import { WAYS } from './summaries.ts'

const [name = 'worker'] = process.argv.slice(2)
const { LLM_URL: llm = '', CATALOGUE_URL: catalogue = '' } = process.env
// The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
process.on('disconnect', () => process.exit())
// Ctrl-C is for the demo, which then ends us.
process.on('SIGINT', () => {})

const [{ databaseUrl: connectionString }] = await once(process, 'message')
const pool = new pg.Pool({ connectionString })
const racePool = new pg.Pool({ connectionString, ...RACE_POOL })
const stopping = new AbortController()

async function handle(delivery: number, id: number, way: Way): Promise<void> {
  const outcome = await WAYS[way](id, { pool, llm })
  await pool.query('insert into handled values ($1, $2, $3)', [id, name, outcome])
  tell({ type: 'acknowledge', delivery })
}

async function recover(): Promise<void> {
  const publish = async (ids: readonly string[]) =>
    tell({ type: 'publish', ids: ids.map(Number).sort((a, b) => a - b) })
  const recovery = summaries.recovery({ publish, resendAfter: '10s' })
  while (!stopping.signal.aborted) {
    await recovery.run(pool, stopping.signal)
    await sleep(RECOVERY_EVERY_MS, undefined, { signal: stopping.signal }).catch(() => {})
  }
}

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}

let recovering = Promise.resolve()

process.on('message', async (message: ToWorker) => {
  if (message.type === 'deliver') {
    await handle(message.delivery, message.id, message.way)
  } else if (message.type === 'recover') {
    recovering = recover()
  } else if (message.type === 'race') {
    await race({ pool: racePool, catalogue, worker: name, ...message })
    tell({ type: 'raced' })
  } else if (message.type === 'report pool') {
    const { totalCount, idleCount, waitingCount } = racePool
    tell({ type: 'pool', busy: totalCount - idleCount, waiting: waitingCount })
  }
})
process.on('SIGTERM', async () => {
  stopping.abort()
  await recovering
  await Promise.all([pool.end(), racePool.end()])
  process.disconnect?.()
})
tell({ type: 'ready' })
