/** The way of every enqueue: parse the inputs, store the jobs, and trace that if a tracer is attached. */
import { InvalidOptionError } from './core/errors.ts'
import type { Kind } from './core/kind.ts'
import { parseInput } from './core/schema.ts'
import type { Connection } from './db/connection.ts'
import { checkTx } from './db/tx.ts'
import { inTurn } from './db/tx-line.ts'
import { type CallOptions, type ManyOptions, toNewJob } from './enqueue-options.ts'
import { type Conflicting, type Enqueued, enqueue, type NewJob } from './jobs/enqueue.ts'
import { enqueueAllOrNone } from './jobs/enqueue-all-or-none.ts'
import { ENQUEUED } from './worker/channels.ts'
import type { UnhandledKinds } from './worker/unhandled-kinds.ts'

export async function storeJobs<Input, Result>(
  connection: Connection,
  kind: Kind<Input, unknown, Result>,
  jobs: readonly ManyOptions<NoInfer<Input>>[],
  { tx, onConflict = 'throw' }: { [Name in keyof CallOptions]: CallOptions[Name] | undefined },
  unhandled: UnhandledKinds | undefined,
): Promise<(Enqueued<Result> | Conflicting)[]> {
  if (typeof kind?.name !== 'string') throw new InvalidOptionError('kind', "declare it with kind('name', { … })")
  const { lane, pool, kinds, tracing } = connection
  kinds.see(kind as Kind)
  const { schema } = kind
  const newJobs: NewJob[] = []
  for (const job of jobs) {
    if (schema !== undefined) await parseInput(kind.name, schema, job.input)
    newJobs.push(toNewJob(kind, job))
  }
  const storeNow = async (all: readonly NewJob[]) =>
    onConflict === 'return'
      ? enqueue(tx === undefined ? lane : lane.within(tx), all)
      : enqueueAllOrNone(lane, pool, tx, all)
  // A call that rolls back to its savepoint would undo what others of the same transaction have stored meanwhile.
  const store = async (all: readonly NewJob[]) =>
    tx === undefined ? storeNow(all) : inTurn(checkTx(tx), () => storeNow(all))
  const stored =
    tracing === undefined
      ? await store(newJobs)
      : await tracing.enqueue(kind, newJobs.length, (carried) =>
          store(newJobs.map((job) => ({ ...job, metadata: { ...carried, ...job.metadata } }))),
        )
  if (ENQUEUED.hasSubscribers) ENQUEUED.publish({ kind: kind.name, queue: kind.queue, jobs: stored })
  unhandled?.enqueued(kind.name)
  return stored as (Enqueued<Result> | Conflicting)[]
}
