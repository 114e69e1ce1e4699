// A worker process: executes the runs of all programs, and the jobs that they start. It ends on SIGTERM.
import { Fatal, handle, type WorkerEvents } from '../../../src/index.ts'
import { handleRuns, type Workflow } from '../../../src/workflow/index.ts'
import { begin, nameOf, print } from '../../common/program.ts'
import { plantedRun } from '../plants/in-process.ts'
import { Interpreter } from './interpreter.ts'
import { isFirst, leasehold, orders, pool, witness } from './process.ts'
import { chaosWorkflow, type RunInput, work } from './workflows.ts'

const REPORTED: readonly (keyof WorkerEvents)[] = [
  'retrying',
  'dead_letter',
  'released',
  'aborted',
  'refused',
  'unknown',
]

const interpreter = new Interpreter(witness, () => chaos, isFirst)
const chaos: Workflow<RunInput, RunInput, unknown> = chaosWorkflow((run, input) =>
  interpreter.run(plantedRun(orders.plant, run, { pool, witness, begun: () => interpreter.lastBegun }), input),
)
const jobs = handle(work, async (job) => {
  const { run, name, i, fails } = job.input
  witness.write('job', { w: run, name, i, job: job.id })
  if (fails) throw new Fatal('planned')
  return { v: `${run}/${name}.${i}` }
})
const worker = leasehold.worker([handleRuns(chaos), jobs], {
  label: orders.name,
  lease: orders.leaseMs,
  sweep: orders.sweepMs,
  poll: '500ms',
  grace: '800ms',
  concurrency: 24,
  prefetch: 8,
})
for (const name of REPORTED) {
  worker.on(name, (event?: object) => {
    const { jobId, generation, reason, outcome, error } = (event ?? {}) as Record<string, unknown>
    const why = error === undefined ? undefined : String((error as Error)?.message ?? error).slice(0, 300)
    witness.write('reported', { outcome: name, job: jobId, gen: generation, reason, tried: outcome, error: why })
  })
}
worker.on('recovered', (event) => witness.write('recovered', event))
worker.on('problem', ({ doing, error }) => witness.write('problem', { doing, error: nameOf(error) }))

begin(witness)
const running = worker.run()
print('ready')
await running
witness.write('left')
await leasehold.close()
await pool.end()
