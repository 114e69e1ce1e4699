// A worker process: the library's worker with the handlers of all workloads. It ends on SIGTERM.
import { handle, type WorkerEvents } from '../../../src/index.ts'
import { nameOf, print } from '../../common/program.ts'
import { begin, KINDS, leasehold, orders, pool, runHandler, witness } from './process.ts'

const OUTCOMES: readonly (keyof WorkerEvents)[] = [
  'completed',
  'retrying',
  'dead_letter',
  'snoozed',
  'cancelled',
  'released',
  'refused',
  'unknown',
]

const handlers = [...KINDS.values()].map((kind) => handle(kind, (job) => runHandler(job)))
const worker = leasehold.worker(handlers, {
  label: orders.name,
  lease: orders.leaseMs,
  sweep: orders.sweepMs,
  poll: '500ms',
  grace: '800ms',
  concurrency: 8,
  prefetch: 16,
})
for (const name of OUTCOMES) {
  worker.on(name, (event?: object) => {
    const { jobId, generation, attempt, reason, outcome: tried } = (event ?? {}) as Record<string, unknown>
    // By a sweep, perhaps of another process, or by its expiry: it is no outcome of a claim of this process.
    const isBuried = name === 'dead_letter' && (reason === 'lease_expired' || reason === 'expired')
    witness.write(isBuried ? 'buried' : 'reported', {
      outcome: name,
      job: jobId,
      gen: generation,
      attempt,
      reason,
      tried,
    })
  })
}
for (const name of ['gained', 'lost', 'unowned'] as const)
  worker.on(name, ({ buckets, epoch }) => witness.write(name, { buckets, epoch }))
worker.on('recovered', (event) => witness.write('recovered', event))
worker.on('problem', ({ doing, error }) => witness.write('problem', { doing, error: nameOf(error) }))
worker.on('stopping', () => witness.write('stopping'))

begin()
const running = worker.run()
print('ready')
await running
witness.write('left')
await leasehold.close()
await pool.end()
