// `npm run chaos:workflow`: starters and workers of durable workflows with random programs, while processes are killed and stopped,
// statements are held on their way, replies are lost and the database crashes. Exits 0 if every rule held, 1 if one did not, 3 if the
// run proves nothing because something that should happen never did.
//
// plan.ts makes the plan from the seed, drive.ts carries it out, checker.ts judges the evidence.
import { runCommand } from '../common/command.ts'
import { check } from './checker.ts'
import { countsOf, missing } from './coverage.ts'
import { drive, evidenceIn } from './drive.ts'
import { planOf } from './plan.ts'
import { PLANTS } from './plants/all.ts'
import { tryPlants } from './plants/try.ts'

process.exitCode = await runCommand({
  name: 'chaos:workflow',
  plants: Object.keys(PLANTS),
  planOf,
  drive,
  evidenceIn,
  judge: (plan, evidence) => {
    const history = { plan, lines: evidence.lines, rows: evidence.rows }
    const counts = countsOf(history)
    return { counts, findings: check(history), missing: missing(counts) }
  },
  tryPlants,
})
