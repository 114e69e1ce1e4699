// A worker process: `node --import tsx demo/fleet/worker.ts "worker 1" [by-hand]`, started by crew.ts.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { runByHand } from './by-hand.ts'
import type { FromWorker, ToWorker } from './messages.ts'
import { runOnRing } from './on-ring.ts'
import { SLOW_WORK_MS, WORK_MS } from './scale.ts'

export interface Surroundings {
  readonly name: string
  readonly pool: pg.Pool
  tell(message: FromWorker): void
  /** What a handler spends its time with. */
  work(): Promise<void>
}

const [name = 'worker', mode] = process.argv.slice(2)
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
let isSlow = false

function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message)
}

async function work(): Promise<void> {
  if (isSlow) tell({ type: 'busy' })
  await sleep(isSlow ? SLOW_WORK_MS : WORK_MS)
}

process.on('message', ({ type }: ToWorker) => {
  if (type === 'slow') isSlow = true
})
// The demo has ended, or we have disconnected ourselves: either way there is nothing left to do.
process.on('disconnect', () => process.exit())
// Ctrl-C is for the demo, which then ends us.
process.on('SIGINT', () => {})
tell({ type: 'ready' })
await once(process, 'message')
const run = mode === 'by-hand' ? runByHand : runOnRing
await run({ name, pool, tell, work })
await pool.end()
process.disconnect?.()
