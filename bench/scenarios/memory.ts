/** Whether a worker that has done a million jobs has grown. */
import { among, type Bench, withProcess } from '../bench.ts'
import { filledDatabase } from '../filled.ts'
import { untilFinished } from '../measure.ts'
import type { Remote } from '../process/remote.ts'

/** V8 enlarges its space for new objects during the first 120,000 jobs: the first mark comes after that. */
const SHARES = [20, 60, 100]
const MIB = 1024 * 1024

export async function memoryScenario(bench: Bench): Promise<void> {
  const jobs = bench.sizes.backlog
  const marks = SHARES.map((share) => (jobs * share) / 100)
  for (const contender of among(bench, ['leasehold'])) {
    const database = await filledDatabase(bench, `${contender}-${jobs}`, contender, jobs)
    const run = async (remote: Remote) => {
      const { url } = database
      await remote.call('work', { url, style: 'backlog', jobs, marks, collectGarbage: true })
      for (const [at, mark] of marks.entries()) {
        const { rssBytes, heapBytes } = await remote.mark(mark)
        const scenario = `memory at ${SHARES[at]} %`
        bench.results.add(scenario, contender, 'rssMiB', mark, [rssBytes / MIB])
        bench.results.add(scenario, contender, 'heapMiB', mark, [heapBytes / MIB])
        bench.say(
          `${scenario}: ${Math.round(rssBytes / MIB)} MiB, ${Math.round(heapBytes / MIB)} MiB of it heap in use`,
        )
      }
      await untilFinished(bench, contender, database)
      await remote.call('stop', {})
    }
    await withProcess(bench, contender, run, ['--expose-gc'])
    await database.drop()
    await bench.server.forget(`${contender}-${jobs}`)
  }
}
