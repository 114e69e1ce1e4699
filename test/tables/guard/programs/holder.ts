// Holds the guard's lock, with a row written and not committed, until it is killed.
import pg from 'pg'
import { WriteGuard } from '../../../../src/tables/index.ts'
import { openIncident, opening } from '../../../support/incidents.ts'

process.on('disconnect', () => process.kill(process.pid, 'SIGKILL')) // The test is gone.
const { url, entity } = JSON.parse(process.env.LEASEHOLD_TEST_HOLDER!) as { url: string; entity: number }
const pool = new pg.Pool({ connectionString: url })
await new WriteGuard(pool).run({
  ...opening(entity),
  seen: [],
  write: async (tx) => {
    await openIncident(entity, 'the killed')(tx)
    process.send!('holding')
    await new Promise(() => {})
  },
})
