/** Many queues, each with a backlog, and one worker: how long until each was served. */
import { setTimeout } from 'node:timers/promises'
import { handle, kind, Leasehold } from '../../src/index.ts'
import type { BenchServer } from '../server.ts'
import { atMost, type Bar } from './bar.ts'

const JOBS = 100_000
const CONCURRENCY = 50
const GIVE_UP_MS = 15_000

export async function queues(server: BenchServer): Promise<Bar[]> {
  return [await lastServed(server, 100, 2_000), await lastServed(server, 1_000, 2_000)]
}

async function lastServed(server: BenchServer, many: number, barMs: number): Promise<Bar> {
  const database = await server.clone(`weather-${many}-queues`, async (_, url) => {
    const filling = new Leasehold({ connectionString: url })
    await filling.migrate()
    const inputs = Array.from({ length: JOBS / many }, (_, input) => ({ input }))
    for (const one of kinds(many)) await filling.enqueueMany(one, inputs)
    await filling.close()
  })
  const leasehold = new Leasehold({ connectionString: database.url, log: () => {} })
  const firstAt = new Map<string, number>()
  const note = (name: string) => void (firstAt.has(name) || firstAt.set(name, performance.now()))
  const worker = leasehold.worker(
    kinds(many).map((one) => handle(one, () => note(one.name))),
    { concurrency: CONCURRENCY, signals: [] },
  )
  const running = worker.run()
  const began = performance.now()
  while (firstAt.size < many && performance.now() - began < GIVE_UP_MS) await setTimeout(20)
  // From the first handler: how long a process takes to connect is another matter.
  const times = [...firstAt.values()].sort((one, other) => one - other)
  const lastMs = firstAt.size < many ? Number.POSITIVE_INFINITY : times.at(-1)! - times[0]!
  await worker.stop()
  await running
  await leasehold.close()
  await database.drop()
  return atMost(`the last of ${many} queues is served`, lastMs, 'ms', barMs)
}

function kinds(many: number) {
  return Array.from({ length: many }, (_, n) => kind<number>(`kind-${n}`, { keep: false }))
}
