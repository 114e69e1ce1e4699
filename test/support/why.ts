// Runs of workflows that wait for a signal, for time and for a job.
import { kind, type Leasehold } from '../../src/index.ts'
import { handleRuns, start, workflow } from '../../src/workflow/index.ts'

const send = kind('send')

export async function runWorkflow(lh: Leasehold) {
  const waits = workflow<{ for: string }, void>('waits', {}, async (run, input) => {
    if (input.for === 'signal') await run.signal('approved')
    else if (input.for === 'time') await run.sleep('1d')
    else await run.job(send, {})
  })
  const begin = async (what: string) => (await start(lh, waits, { for: what }, { runId: what })).jobId
  const [signalled, sleeping, parent] = [await begin('signal'), await begin('time'), await begin('job')]
  await lh.drain([handleRuns(waits)])
  const [child] = await lh.list({ kind: send })
  return { signalled, sleeping, parent, child: child!.id }
}
