/**
 * A worker with a thousand kinds, each in a queue of its own, and nothing to do: what each of its looks costs the server.
 */
import { setTimeout } from 'node:timers/promises'
import { handle, kind, Leasehold } from '../../src/index.ts'
import type { BenchServer } from '../server.ts'
import { atMost, type Bar } from './bar.ts'
import { CLAIMS_SO_FAR } from './claims.sql.ts'

const KINDS = 1_000
const POLL_MS = 20
const WARM_UP_MS = 1_500
const MEASURE_MS = 4_000
const BAR_MS = 4
/** A thousand other queues are busy meanwhile: an index that is not empty. */
const OTHERS = `insert into leasehold.job (available_at, created_at, partition_bucket, queue, kind, payload)
  select now(), now(), n % 1024, 'other-' || n % 1000, 'other', '1' from generate_series(1, 50000) n`

export async function kinds(server: BenchServer): Promise<Bar[]> {
  await server.configure('track_functions', "'pl'")
  const database = await server.clone('weather-kinds', async (main, url) => {
    const first = new Leasehold({ connectionString: url })
    await first.migrate()
    await first.close()
    await main.query(OTHERS)
  })
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  const handlers = Array.from({ length: KINDS }, (_, n) => handle(kind(`kind-${n}`), () => {}))
  const worker = leasehold.worker(handlers, { poll: POLL_MS, signals: [] })
  const running = worker.run()
  const soFar = async () => (await database.main.query<{ calls: number; ms: number }>(CLAIMS_SO_FAR)).rows[0]!
  await setTimeout(WARM_UP_MS)
  const [before, cpuBefore] = [await soFar(), process.cpuUsage()]
  await setTimeout(MEASURE_MS)
  const [after, cpu] = [await soFar(), process.cpuUsage(cpuBefore)]
  await worker.stop()
  await running
  await leasehold.close()
  await database.drop()
  const claims = after.calls - before.calls
  return [
    atMost(`the server's time for an idle look, ${KINDS} kinds`, (after.ms - before.ms) / claims, 'ms', BAR_MS),
    atMost(`the worker's time for it, ${KINDS} kinds`, (cpu.user + cpu.system) / 1_000 / claims, 'ms', BAR_MS),
  ]
}
