// A producer process: enqueues the planned work at the planned times. Started again, it continues after the last step it
// began, and repeats steps that have a key and no reply. It ends on SIGTERM.
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { EnqueueOptions } from '../../../src/index.ts'
import { nameOf, print } from '../../common/program.ts'
import { readWitness } from '../../common/witness.ts'
import type { Plan, Step } from '../plan.ts'
import type { Input } from '../workload.ts'
import { workloadOf } from '../workloads/all.ts'
import { begin, KINDS, leasehold, orders, pool, witness } from './process.ts'

const AT_ONCE = 8
const AGAIN_MS = 250
const LOOK_EVERY_MS = 50

const plan = JSON.parse(readFileSync(orders.plan, 'utf8')) as Plan
const seat = orders.name.slice(0, orders.name.lastIndexOf('.') + 1)
const before = readWitness(orders.directory, (file) => file.startsWith(seat))
const asked = new Set(before.flatMap(({ e, w }) => (e === 'asked' ? [w!] : [])))
const answered = new Set(before.flatMap(({ e, w }) => (e === 'answered' ? [w!] : [])))
const left = plan.steps.filter(
  ({ w, workload, producer }) =>
    producer === orders.producer && (asked.has(w) ? workloadOf(workload).repeats && !answered.has(w) : true),
)
let stopping = false
process.on('SIGTERM', () => {
  stopping = true
})

begin()
print('ready')
while (!existsSync(orders.startFile) && !stopping) await wait(LOOK_EVERY_MS)
const startedAt = stopping ? 0 : Number(readFileSync(orders.startFile, 'utf8'))
const running = new Set<Promise<void>>()
for (const step of left) {
  await wait(Math.max(0, startedAt + step.atMs - Date.now()))
  while (running.size >= AT_ONCE) await Promise.race(running)
  if (stopping) break
  const produced: Promise<void> = produce(step).finally(() => running.delete(produced))
  running.add(produced)
}
await Promise.all(running)
if (!stopping) print('done')
while (!stopping) await wait(50)
await leasehold.close()
await pool.end()
witness.write('left')

async function produce({ w, workload: name, script }: Step): Promise<void> {
  const workload = workloadOf(name)
  const input: Input = { w, ...script }
  const kind = KINDS.get(workload.kindOf?.(script) ?? Object.keys(workload.kinds)[0]!)!
  const note = (e: string, details: Readonly<Record<string, unknown>> = {}) => witness.write(e, { w, ...details })
  const enqueue = (what: Input, options: EnqueueOptions = {}) =>
    leasehold.enqueue(kind, what, { ...workload.options?.(what), ...options, onConflict: 'return' })
  for (let isRepeat = asked.has(w); !stopping; isRepeat = true) {
    note('asked')
    try {
      if (workload.produce !== undefined) await workload.produce({ input, leasehold, pool, isRepeat, enqueue, note })
      else {
        const { jobId, outcome } = await enqueue(input)
        note('acked', { job: jobId, outcome })
      }
      return note('answered')
    } catch (error) {
      note('failed', { error: nameOf(error) })
      if (!workload.repeats) return
    }
    await wait(AGAIN_MS)
  }
}
