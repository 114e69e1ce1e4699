import { DBOS } from '@dbos-inc/dbos-sdk'
import { pinnedVersion } from '../contenders/contender.ts'
import { atATime, type Engine } from './contender.ts'

const bench = DBOS.registerWorkflow(
  async (n: number) => {
    const a = await DBOS.runStep(async () => n + 1, { name: 'a' })
    const b = await DBOS.runStep(async () => a + 1, { name: 'b' })
    return DBOS.runStep(async () => b + 1, { name: 'c' })
  },
  { name: 'bench' },
)

/** Tried with 10, 20 and 40: see `why`. */
const POOL = 20

export const dbos: Engine = {
  version: pinnedVersion('@dbos-inc/dbos-sdk'),
  why:
    'Each run is a direct call of the workflow, which is its fastest way: no queue in between, and the process that starts a run executes it. ' +
    `A pool of ${POOL} connections, no admin server, no traces.`,
  open: async (url, most) => {
    DBOS.setConfig({
      name: 'bench',
      systemDatabaseUrl: url,
      systemDatabasePoolSize: POOL,
      runAdminServer: false,
      enableOTLP: false,
      logLevel: 'error',
    })
    await DBOS.launch()
    return { run: (runs) => atATime(runs, most, (n) => bench(n)), close: () => DBOS.shutdown() }
  },
}
